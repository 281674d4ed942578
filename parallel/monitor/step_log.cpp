// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/step_log.h"

#include "parallel/replica/replica_state.h"

namespace lockstep {

StepLog::StepLog(const ReplicaState& replica,
                 const TrainingFeed& feed,
                 const data::Loader& loader,
                 std::int64_t first_step,
                 double wall_s,
                 const LossMeter& meter)
    : replica_(replica),
      feed_(feed),
      loader_(loader),
      earlier_(wall_s),
      start_(replica.times()),
      step_(first_step),
      meter_(meter) {}

void StepLog::pause() {
  before_pause_ = process_seconds();
  queued_before_pause_ = queued_seconds().value_or(0);
  running_ = false;
}

void StepLog::restart(std::int64_t step, const LossMeter& meter) {
  interval_begin_ = breakdown();
  last_step_ = process_seconds();
  step_ = step;
  meter_ = meter;
}

void StepLog::resume() {
  begin_ = Clock::now();
  queue_begin_ = run_queue_wait();
  running_ = true;
}

void StepLog::step_done() {
  const double now = process_seconds();
  spread_.add(now - last_step_);
  last_step_ = now;
}

std::optional<double> StepLog::queued_seconds() const {
  const std::optional<double> now = running_ ? run_queue_wait() : queue_begin_;
  if (!now || !queue_begin_) return std::nullopt;
  return queued_before_pause_ + *now - *queue_begin_;
}

double StepLog::process_seconds() const {
  const double open = running_ ? std::chrono::duration<double>(Clock::now() - begin_).count() : 0.0;
  return before_pause_ + open;
}

TimeBreakdown StepLog::breakdown() const {
  const StepTimes now = replica_.times();
  TimeBreakdown breakdown = stalls_;
  breakdown[TimePart::data] = now.data - start_.data;
  breakdown[TimePart::copy] = now.copy - start_.copy;
  breakdown[TimePart::forward] = now.forward - start_.forward;
  breakdown[TimePart::backward] = now.backward - start_.backward;
  breakdown[TimePart::exchange] = now.exposed_communication - start_.exposed_communication;
  breakdown[TimePart::optimizer] = now.optimizer - start_.optimizer;
  breakdown[TimePart::device_wait] = now.device_wait - start_.device_wait;
  breakdown.total = process_seconds();
  breakdown.close();
  return breakdown;
}

StepRecord StepLog::record(std::int64_t step, float lr, const StepResult& result, int ranks) {
  const TimeBreakdown now = breakdown(), interval = now - interval_begin_;
  const StepRecord record{
      .step = step + 1,
      .epoch = feed_.epochs_after(step + 1),
      .samples = feed_.samples_before(step + 1),
      .loss = meter_.loss,
      .accuracy = meter_.accuracy,
      .step_loss = result.loss,
      .lr = lr,
      .grad_norm = result.grad_norm,
      .samples_per_s =
          double(feed_.samples_before(step + 1) - feed_.samples_before(step_)) / interval.total,
      .step_ms = interval * (1e3 / double(step + 1 - step_)),
      .loader_samples_per_s = loader_.samples_per_second() * ranks};
  step_ = step + 1;
  interval_begin_ = now;
  meter_ = {};
  return record;
}

}  // namespace lockstep
