// SPDX-License-Identifier: Apache-2.0
#include "core/profile/device_activities.h"

namespace lockstep {
namespace {

double seconds(DeviceActivities::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

DeviceActivities::DeviceActivities(std::size_t works, Clock::time_point zero)
    : zero_(zero), totals_(works + 1) {
  events_.reserve(kMaxEvents);
}

int DeviceActivities::number_of(std::string_view name) {
  const auto known = numbers_.find(name);
  if (known != numbers_.end()) return known->second;
  names_.emplace_back(name);
  return numbers_.emplace(name, int(names_.size()) - 1).first->second;
}

void DeviceActivities::take(const DeviceActivity& activity) {
  const std::lock_guard lock(mutex_);
  const bool marked = activity.mark != DeviceActivity::kUnmarked;
  const auto work = std::uint32_t(activity.mark);
  const bool has_work = marked && work < totals_.size() - 1;
  Total& total = has_work ? totals_[work] : totals_.back();
  ++total.activities;
  total.seconds += seconds(activity.end - activity.begin);
  busy_.add(activity.begin, activity.end);
  const bool keep = activity.mark >> 63 != 0;
  if (!marked || !keep) return;
  if (events_.size() == kMaxEvents) {
    ++dropped_;
    return;
  }
  events_.push_back({.work = has_work ? int(work) : kNoWork,
                     .step = std::int64_t(activity.mark << 1 >> 33) - 1,
                     .name = number_of(activity.name),
                     .stream = activity.stream,
                     .begin = seconds(activity.begin - zero_),
                     .end = seconds(activity.end - zero_)});
}

void DeviceActivities::name_stream(std::uint32_t stream, std::string_view name) {
  const std::lock_guard lock(mutex_);
  streams_.insert_or_assign(stream, std::string(name));
}

std::string DeviceActivities::stream_name(std::uint32_t stream) const {
  const auto known = streams_.find(stream);
  return known == streams_.end() ? std::string() : known->second;
}

double DeviceActivities::busy_seconds() const { return seconds(busy_.length()); }

void DeviceActivities::lose(std::int64_t activities) {
  const std::lock_guard lock(mutex_);
  lost_ += activities;
}

}  // namespace lockstep
