// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_timer.h"

#include <utility>

#include "core/base/check.h"

namespace lockstep {
namespace {

/// A micro-batch's copy, forward and backward; a shard that is added up; and once a step the start
/// of the exchange where backward did not start it, its end, and the optimizer.
std::size_t max_marks(std::size_t rounds, std::size_t shards) { return 3 * rounds + shards + 3; }

}  // namespace

DeviceTimer::DeviceTimer(Backend& backend, std::size_t rounds, std::size_t shards)
    : backend_(backend) {
  if (max_marks(rounds, shards) > kMaxMarks) return;
  begin_ = backend.make_timed_event();
  end_ = backend.make_timed_event();
  if (end_ == nullptr) return;
  marks_.resize(max_marks(rounds, shards));
  for (Mark& mark : marks_) mark.event = backend.make_timed_event();
}

void DeviceTimer::begin_step(std::int64_t step, bool whole) {
  was_asked_ = std::exchange(wanted_, false);
  measures_ = was_asked_ && whole && has_end_;
  if (!measures_) return;
  std::swap(begin_, end_);
  used_ = 0;
  step_ = step;
}

void DeviceTimer::mark(DevicePart part) {
  if (!measures_) return;
  LOCKSTEP_ASSERT(used_ < marks_.size());
  Mark& mark = marks_[used_++];
  mark.part = part;
  backend_.record(*mark.event);
}

void DeviceTimer::end_step() {
  mark(DevicePart::optimizer);
  measures_ = false;
  skip_work();
}

void DeviceTimer::skip_work() {
  if (end_ == nullptr) return;
  backend_.record(*end_);
  has_end_ = true;
}

std::optional<DeviceTimes> DeviceTimer::of(std::int64_t step) const {
  if (step != step_ || used_ == 0 || measures_) return std::nullopt;
  marks_[used_ - 1].event->wait();
  DeviceTimes times;
  const DeviceEvent* last = begin_.get();
  for (std::size_t i = 0; i < used_; ++i) {
    times[marks_[i].part] += marks_[i].event->seconds_since(*last);
    last = marks_[i].event.get();
  }
  return times;
}

}  // namespace lockstep
