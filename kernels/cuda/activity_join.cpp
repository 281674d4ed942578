// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/activity_join.h"

namespace lockstep::cuda {

ActivityJoin::ActivityJoin(DeviceActivitySink& sink) : sink_(sink), marks_(kCalls) {
  waiting_.reserve(kMostWaiting);
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
  if (waiting_.size() == kMostWaiting) finish();
  waiting_.emplace_back(call, activity);
}

void ActivityJoin::settle() {
  std::erase_if(waiting_, [this](Waiting& entry) { return hand_on(entry.first, entry.second); });
}

void ActivityJoin::finish() {
  settle();
  for (const auto& [call, activity] : waiting_) sink_.take(activity);
  waiting_.clear();
}

}  // namespace lockstep::cuda
