// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/profile/busy_time.h"
#include "core/profile/device_tracer.h"

namespace lockstep {

/// Sums up what a device did, by the work it was asked for under; single events where the mark says
/// so. Filled by whatever thread the tracer has; read it after DeviceTracer::stop().
class DeviceActivities final : public DeviceActivitySink {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kNoWork = -1;
  static constexpr std::size_t kMaxEvents = 100000;
  static constexpr std::int64_t kMaxStep = (std::int64_t{1} << 31) - 2;

  struct Total {
    std::int64_t activities = 0;
    double seconds = 0;
  };
  struct Event {
    int work = kNoWork;
    std::int64_t step = -1;  ///< from 0; -1: none, as of an evaluation
    int name = 0;            ///< in names()
    std::uint32_t stream = 0;
    double begin = 0, end = 0;  ///< seconds since `zero`
  };

  /// `works`: how many there are.
  DeviceActivities(std::size_t works, Clock::time_point zero);

  /// What DeviceTracer::push() is given for work number `work` (kNoWork: none) in step `step` (-1:
  /// in none; at most kMaxStep). `keep`: as single events as well.
  static std::uint64_t mark(std::int64_t step, int work, bool keep) {
    return std::uint64_t(keep) << 63 | std::uint64_t(step + 1) << 32 | std::uint32_t(work);
  }

  void take(const DeviceActivity& activity) override;
  void name_stream(std::uint32_t stream, std::string_view name) override;
  void lose(std::int64_t activities) override;

  const Total& total(int work) const { return totals_[std::size_t(work)]; }
  /// Of what belongs to no work.
  const Total& other() const { return totals_.back(); }
  /// For how long the device did anything at all; less than the sum of all totals where activities
  /// of several streams overlap. See BusyTime for what its bounded memory means.
  double busy_seconds() const;
  const std::vector<Event>& events() const { return events_; }
  const std::vector<std::string>& names() const { return names_; }
  /// "compute"; empty: not known.
  std::string stream_name(std::uint32_t stream) const;
  /// Events to be kept beyond kMaxEvents; they are in the totals.
  std::int64_t dropped() const { return dropped_; }
  /// Activities that could not be recorded; they are in no total.
  std::int64_t lost() const { return lost_; }

 private:
  int number_of(std::string_view name);

  const Clock::time_point zero_;
  std::mutex mutex_;
  std::vector<Total> totals_;  // [works + 1]
  BusyTime busy_;
  std::vector<Event> events_;
  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> numbers_;  // of names
  std::map<std::uint32_t, std::string> streams_;
  std::int64_t dropped_ = 0, lost_ = 0;
};

}  // namespace lockstep
