// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/activity_join.h"

#include "core/profile/busy_time.h"

namespace lockstep::cuda {

// All that waits here may come at once and still be counted as busy.
static_assert(ActivityJoin::kMaxWaiting <= BusyTime::kMaxApart / 2);

ActivityJoin::ActivityJoin(DeviceActivitySink& sink) : sink_(sink), marks_(kCalls) {
  waiting_.reserve(kMaxWaiting);
}

bool ActivityJoin::hand_on(std::uint32_t call, DeviceActivity& activity) {
  const Marked& marked = marks_[call % kCalls];
  if (marked.call != call) return false;
  activity.mark = marked.mark;
  sink_.take(activity);
  return true;
}

void ActivityJoin::take(std::uint32_t call, DeviceActivity activity) {
  if (hand_on(call, activity)) return;
  if (waiting_.size() == kMaxWaiting) {
    resolve();
    if (waiting_.size() > kMaxWaiting / 2) give_up(waiting_.size() - kMaxWaiting / 2);
  }
  waiting_.emplace_back(call, activity);
}

void ActivityJoin::resolve() {
  std::erase_if(waiting_, [this](Waiting& entry) { return hand_on(entry.first, entry.second); });
}

void ActivityJoin::finish() {
  resolve();
  give_up(waiting_.size());
}

void ActivityJoin::give_up(std::size_t count) {
  const auto end = waiting_.begin() + std::ptrdiff_t(count);
  for (auto i = waiting_.begin(); i != end; ++i) sink_.take(i->second);
  waiting_.erase(waiting_.begin(), end);
}

}  // namespace lockstep::cuda
