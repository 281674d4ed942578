// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/operator.h"

namespace lockstep {

/// Where work runs: the rows of a trace.
enum class ProfileStream : std::uint8_t { compute, communication };

/// Something that is timed, again and again: a node of a program, a bucket's exchange.
struct ProfiledWork {
  std::string name;  ///< the operator: "conv2d"; one line of the table
  std::string path;  ///< "layer1.0.conv1"
  ProfileStream stream = ProfileStream::compute;
  bool bf16 = false;  ///< arithmetic in bf16: another peak
  Cost cost;          ///< of one run
};

/// Times what one rank does. Sums are kept for the whole run, single events for a window of steps.
/// Used by the training thread alone; allocates nothing while recording.
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

  /// `first_step` and `steps`: the window whose events are kept, at most kMostEvents.
  Profiler(std::int64_t first_step, std::int64_t steps);

  /// Returns the number to record under.
  int declare(ProfiledWork work);
  /// Zero of the events' time; totals start again.
  void start();
  void begin_step(std::int64_t step);
  void record(int work, Clock::time_point begin, Clock::time_point end);

  const std::vector<ProfiledWork>& works() const { return works_; }
  const std::vector<Total>& totals() const { return totals_; }
  const std::vector<Event>& events() const { return events_; }
  /// Events of the window beyond kMostEvents.
  std::int64_t dropped() const { return dropped_; }

  static constexpr std::size_t kMostEvents = 100000;

 private:
  std::int64_t first_step_, steps_;
  Clock::time_point start_;
  bool tracing_ = false;
  std::vector<ProfiledWork> works_;
  std::vector<Total> totals_;
  std::vector<Event> events_;
  std::int64_t dropped_ = 0;
};

/// Records the time from construction to destruction under `work`; nothing without a profiler.
class ProfileScope {
 public:
  ProfileScope(Profiler* profiler, int work) : profiler_(profiler), work_(work) {
    if (profiler_ != nullptr) begin_ = Profiler::Clock::now();
  }
  ~ProfileScope() {
    if (profiler_ != nullptr) profiler_->record(work_, begin_, Profiler::Clock::now());
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  Profiler* profiler_;
  int work_;
  Profiler::Clock::time_point begin_;
};

}  // namespace lockstep
