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
  step_times_.reserve(kMaxSteps);
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
  const auto now = Clock::now();
  open_step_.seconds = std::chrono::duration<double>(now - step_begin_).count();
  if (step == number_ + 1 && step_times_.size() < kMaxSteps) step_times_.push_back(open_step_);
  number_ = step;
  step_begin_ = now;
  open_step_ = {};
  step_ = step <= DeviceActivities::kMaxStep ? step : -1;
  tracing_ = step >= first_step_ && step < first_step_ + steps_;
  mark_the_rest();
}

void Profiler::add_to_step(const ProfiledWork& work, double seconds) {
  if (!work.kernel.empty()) open_step_.nodes += seconds;
  if (work.part == ProfilePart::loading || work.part == ProfilePart::copying)
    open_step_.loading += seconds;
  if (work.part == ProfilePart::loading) ++open_step_.micro_batches;
  if (work.part == ProfilePart::sums) {
    open_step_.sums += seconds;
    ++open_step_.shards;
  }
}

void Profiler::record(int work, Clock::time_point begin, Clock::time_point end) {
  newest_end_ = end;
  Total& total = totals_[std::size_t(work)];
  ++total.runs;
  const double seconds = std::chrono::duration<double>(end - begin).count();
  total.seconds += seconds;
  add_to_step(works_[std::size_t(work)], seconds);
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
