// SPDX-License-Identifier: Apache-2.0
#include "parallel/step_log.h"

namespace lockstep {

StepLog::StepLog(const Replica& replica,
                 const TrainingFeed& feed,
                 const data::Loader& loader,
                 std::int64_t first_step,
                 double wall_s)
    : replica_(replica),
      feed_(feed),
      loader_(loader),
      earlier_(wall_s),
      step_(first_step),
      times_(replica.times()),
      waited_(loader.waited_seconds()) {}

void StepLog::pause() {
  paused_interval_ += std::chrono::duration<double>(Clock::now() - begin_).count();
  running_ = false;
}

void StepLog::restart(std::int64_t step) {
  done_ = process_seconds();
  paused_interval_ = 0;
  begin_ = Clock::now();
  step_ = step;
  times_ = replica_.times();
  waited_ = loader_.waited_seconds();
}

void StepLog::go_on() {
  begin_ = Clock::now();
  running_ = true;
}

double StepLog::process_seconds() const {
  const double open = running_ ? std::chrono::duration<double>(Clock::now() - begin_).count() : 0.0;
  return done_ + paused_interval_ + open;
}

StepRecord StepLog::record(std::int64_t step, float lr, const StepResult& result, int ranks) {
  const auto end = Clock::now();
  const double interval = paused_interval_ + std::chrono::duration<double>(end - begin_).count();
  const StepTimes now = replica_.times();
  const double waited = loader_.waited_seconds(), steps = double(step + 1 - step_);
  const auto ms = [&](double last, double first) { return (last - first) / steps * 1e3; };
  const StepRecord record{
      .step = step + 1,
      .epoch = feed_.epochs_after(step + 1),
      .samples = feed_.samples_before(step + 1),
      .loss = result.loss,
      .accuracy = result.accuracy,
      .lr = lr,
      .grad_norm = result.grad_norm,
      .samples_per_s =
          double(feed_.samples_before(step + 1) - feed_.samples_before(step_)) / interval,
      .step_ms = interval / steps * 1e3,
      .data_ms = ms(waited, waited_),
      .forward_ms = ms(now.forward, times_.forward),
      .backward_ms = ms(now.backward, times_.backward),
      .comm_exposed_ms = ms(now.exposed_communication, times_.exposed_communication),
      .optimizer_ms = ms(now.optimizer, times_.optimizer),
      .loader_samples_per_s = loader_.samples_per_second() * ranks};
  done_ += interval;
  paused_interval_ = 0;
  step_ = step + 1;
  times_ = now;
  waited_ = waited;
  begin_ = end;
  return record;
}

}  // namespace lockstep
