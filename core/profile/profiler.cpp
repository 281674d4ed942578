// SPDX-License-Identifier: Apache-2.0
#include "core/profile/profiler.h"

namespace lockstep {

Profiler::Profiler(std::int64_t first_step, std::int64_t steps)
    : window_begin_(first_step),
      first_step_(first_step),
      steps_(steps),
      start_(Clock::now()),
      begin_(start_) {
  events_.reserve(kMaxEvents);
}

int Profiler::declare(ProfiledWork work) {
  works_.push_back(std::move(work));
  totals_.emplace_back();
  return int(works_.size()) - 1;
}

Profiler::~Profiler() { stop(); }

void Profiler::start(std::int64_t step) {
  first_step_ = window_begin_ + step;
  start_ = begin_ = Clock::now();
  for (Total& total : totals_) total = {};
}

void Profiler::trace_device(std::unique_ptr<DeviceTracer> tracer) {
  auto device = std::make_unique<DeviceActivities>(works_.size(), start_);
  tracer->start(*device);
  device_ = std::move(device);
  tracer_ = std::move(tracer);
  mark_the_rest();
}

void Profiler::give_up_device() {
  stop();
  device_.reset();
}

void Profiler::stop() {
  seconds_ = std::chrono::duration<double>(Clock::now() - begin_).count();
  if (!tracer_) return;
  if (marks_the_rest_) tracer_->pop();
  marks_the_rest_ = false;
  tracer_->stop();
  tracer_.reset();
}

/// Of all that no scope is around.
void Profiler::mark_the_rest() {
  if (!tracer_) return;
  if (marks_the_rest_) tracer_->pop();
  tracer_->push(DeviceActivities::mark(step_, DeviceActivities::kNoWork, tracing_));
  marks_the_rest_ = true;
}

void Profiler::end_step() {
  step_ = -1;
  mark_the_rest();
}

void Profiler::begin_step(std::int64_t step) {
  step_ = step <= DeviceActivities::kMaxStep ? step : -1;
  tracing_ = step >= first_step_ && step < first_step_ + steps_;
  mark_the_rest();
}

void Profiler::record(int work, Clock::time_point begin, Clock::time_point end) {
  newest_end_ = end;
  Total& total = totals_[std::size_t(work)];
  ++total.runs;
  total.seconds += std::chrono::duration<double>(end - begin).count();
  if (!tracing_) return;
  if (events_.size() == kMaxEvents) {
    ++dropped_;
    return;
  }
  const auto since_start = [&](Clock::time_point t) {
    return std::chrono::duration<double>(t - start_).count();
  };
  events_.push_back({work, since_start(begin), since_start(end)});
}

}  // namespace lockstep
