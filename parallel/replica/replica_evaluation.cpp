// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"
#include "parallel/comm/device_wait.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {

void ReplicaState::compile_for_evaluation(std::int64_t all) {
  const std::int64_t samples = all % batch.micro_batch;
  if (samples == 0 || programs.evaluates(samples)) return;
  programs.set_late_evaluation(context, model_, loss_, samples_, options, batch, samples);
}

std::optional<StepResult> ReplicaState::evaluate(const Schedule& schedule,
                                                 data::Loader& loader,
                                                 const std::function<bool()>& interrupted) {
  RunState state{.seed = options.seed};
  set_sample_weight(schedule);
  // The device may still read what the loader, which dies next, has lent it.
  const auto stop = [&] {
    const bool stops = interrupted && interrupted();
    if (!stops) return false;
    const DeviceWait waiting(context);
    context.backend().synchronize();
    return true;
  };
  int rounds = 0;
  evaluation_exchange.begin_step(schedule);
  for (std::size_t s = 0; s < schedule.work.size(); ++s) {
    state.accumulate = false;
    for (const MicroBatch& micro_batch : schedule.work[s].micro_batches) {
      if (stop()) return std::nullopt;
      const BoundProgram& program = programs.evaluation(micro_batch.samples);
      timer_.start();
      load(program, loader, 0);
      context.position().enter(Phase::forward);
      program.program->run_forward(state);
      state.accumulate = true;
      ++rounds;
    }
    if (s + 1 < schedule.work.size()) evaluation_exchange.finish_shard();
  }
  for (; rounds < schedule.most_rounds; ++rounds)
    if (stop()) return std::nullopt;
  context.position().enter(Phase::exchange);
  evaluation_exchange.start_bucket(0);
  evaluation_exchange.finish_bucket(0);
  StepResult result;
  read_metrics(result);
  context.communicator().require_healthy();
  programs.packed().invalidate();  // on ranks that had none to evaluate, too: see GraphKey
  device_timer.leave_out();
  LOCKSTEP_CHECK(result.counted > 0,
                 DataError,
                 "evaluation: all labels of the {} samples are to be ignored",
                 schedule.samples);
  return result;
}

void ReplicaState::read_metrics(StepResult& result) {
  const DeviceWait waiting(context);
  const auto read = [&](std::int64_t offset) {
    float value = 0;
    context.backend().copy_to_host(&value, programs.gradients() + offset, sizeof(float));
    return value;
  };
  // The sums weigh every row by one over all rows; means are over those that count.
  const double counted = metrics.counted < 0 ? 1.0 : double(read(metrics.counted));
  result.counted = counted;
  result.loss = double(read(metrics.loss)) / counted;
  if (metrics.correct >= 0) result.accuracy = double(read(metrics.correct)) / counted;
}

}  // namespace lockstep
