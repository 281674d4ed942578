// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/graph/operator.h"
#include "core/profile/device_activities.h"

namespace lockstep {

/// Where work runs: the rows of a trace.
enum class ProfileStream : std::uint8_t { compute, communication };

/// Parts of a step that Profiler::Step tells apart.
enum class ProfilePart : std::uint8_t { other, loading, copying, sums };

/// Something that is timed, again and again: a node of a program, a bucket's exchange.
struct ProfiledWork {
  std::string name;         ///< the operator: "conv2d"; one line of the table
  std::string path;         ///< "layer1.0.conv1"
  std::string kernel = {};  ///< of a node: its kernel_name()
  ProfileStream stream = ProfileStream::compute;
  ProfilePart part = ProfilePart::other;
  bool bf16 = false;  ///< arithmetic in bf16: another peak
  Cost cost;          ///< of one run
};

/// Times what one rank does. Sums are kept for the whole run, single events for a window of steps.
/// On the processor's clock: whoever wants to time a device so has to wait for it. With a tracer
/// the device is timed by its own, and need not be waited for. Used by the training thread alone;
/// allocates nothing while recording.
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  struct Total {
    std::int64_t runs = 0;
    double seconds = 0;
  };
  struct Event {
    int work = 0;
    double begin = 0, end = 0;  ///< seconds since start()
  };

  /// The window whose events are kept, at most kMaxEvents: `steps` steps, after `first_step`
  /// others.
  Profiler(std::int64_t first_step, std::int64_t steps);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Returns the number to record under.
  int declare(ProfiledWork work);
  /// Zero of the events' time; totals start again. `step`: the first that is timed.
  void start(std::int64_t step = 0);
  /// After start(), once all work is declared: from now on the device is timed as well. Throws as
  /// DeviceTracer::start(), and then continues without.
  void trace_device(std::unique_ptr<DeviceTracer> tracer);
  /// What is timed begins here rather than with start(): all ranks' tracers have started.
  void begin() { begin_ = Clock::now(); }
  /// As if the device had not been traced.
  void give_up_device();
  /// The end of what is timed; the device must have finished.
  void stop();
  void begin_step(std::int64_t step);
  /// What comes before the next begin_step(), as an evaluation, belongs to no step.
  void end_step();
  void record(int work, Clock::time_point begin, Clock::time_point end);
  /// Where the last record ended.
  Clock::time_point newest_end() const { return newest_end_; }
  /// What is asked of the device until leave() belongs to `work`.
  void enter(int work) {
    if (tracer_) tracer_->push(DeviceActivities::mark(step_, work, tracing_));
  }
  void leave() {
    if (tracer_) tracer_->pop();
  }

  /// Whether the device's times are its own; otherwise it has to be waited for within each scope.
  bool traces_device() const { return tracer_ != nullptr; }
  /// Complete after stop(); null: the device was not traced.
  const DeviceActivities* device() const { return device_.get(); }
  /// From start(), or begin(), to stop().
  double seconds() const { return seconds_; }
  const std::vector<ProfiledWork>& works() const { return works_; }
  const std::vector<Total>& totals() const { return totals_; }
  const std::vector<Event>& events() const { return events_; }
  /// Events of the window beyond kMaxEvents; they are in the totals.
  std::int64_t dropped() const { return dropped_; }

  /// What a step's work is for; of all but nodes as ProfiledWork::part says.
  struct Step {
    double seconds = 0;                 ///< by the host's clock, from its begin_step() to the next
    double nodes = 0;                   ///< of that, within nodes of programs
    double loading = 0;                 ///< before a micro-batch is there
    double sums = 0;                    ///< of shards
    int micro_batches = 0, shards = 0;  ///< shards: ends of all but the last
  };
  /// The first kMaxSteps that another one directly followed.
  const std::vector<Step>& step_times() const { return step_times_; }

  static constexpr std::size_t kMaxEvents = 100000, kMaxSteps = 4096;

 private:
  void mark_the_rest();
  void add_to_step(const ProfiledWork& work, double seconds);

  std::int64_t window_begin_, first_step_, steps_;
  Clock::time_point start_, begin_, newest_end_;
  double seconds_ = 0;
  std::int64_t step_ = -1;  // -1: between two
  bool tracing_ = false;    // in the window, up to the step after it
  std::vector<ProfiledWork> works_;
  std::vector<Total> totals_;
  std::vector<Event> events_;
  std::vector<Step> step_times_;
  Clock::time_point step_begin_;
  Step open_step_;
  std::int64_t number_ = -2;  // of the step that began at step_begin_
  std::int64_t dropped_ = 0;
  std::unique_ptr<DeviceActivities> device_;
  bool marks_the_rest_ = false;           // has pushed that mark
  std::unique_ptr<DeviceTracer> tracer_;  // last: it ends before what it fills
};

/// What is asked of the device while it lives belongs to `work`; nothing without a profiler.
class DeviceScope {
 public:
  DeviceScope(Profiler* profiler, int work) : profiler_(profiler) {
    if (profiler_ != nullptr) profiler_->enter(work);
  }
  ~DeviceScope() {
    if (profiler_ != nullptr) profiler_->leave();
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Profiler* profiler_;
};

/// Records the time from construction to destruction under `work`, and what the device does for it;
/// nothing without a profiler. `begin` at_last_end: from the end of the last record, for what
/// comes directly after it; a reading of the clock less.
class ProfileScope {
 public:
  enum class Begin : std::uint8_t { now, at_last_end };
  ProfileScope(Profiler* profiler, int work, Begin begin = Begin::now)
      : profiler_(profiler), work_(work), device_(profiler, work) {
    if (profiler_ == nullptr) return;
    begin_ = begin == Begin::now ? Profiler::Clock::now() : profiler_->newest_end();
  }
  ~ProfileScope() {
    if (profiler_ != nullptr) profiler_->record(work_, begin_, Profiler::Clock::now());
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  Profiler* profiler_;
  int work_;
  DeviceScope device_;
  Profiler::Clock::time_point begin_;
};

}  // namespace lockstep
