// SPDX-License-Identifier: Apache-2.0
// Which operator computed something that is not finite: in every step with LOCKSTEP_NAN_CHECK=1,
// and in a step that is replayed.
#include "core/step/fault_injector.h"
#include "parallel/comm/device_wait.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {

void ReplicaState::end_round(std::int64_t first_sample) {
  search_.end_round(first_sample < 0 ? -1 : first_sample / batch.micro_batch);
}

std::vector<NonFiniteFinding> ReplicaState::find_nonfinite(const Schedule& schedule,
                                                           data::Loader& loader,
                                                           std::int64_t step) {
  const StepTimes before = times;  // which are training's
  search_.begin();
  checks_ = true;
  programs.check_finite(search_.report());
  RunState state{.seed = options.seed, .step = std::uint64_t(step), .group = group_.get()};
  set_sample_weight(schedule);
  play_nan(step);
  for (const ShardWork& shard : schedule.work) {
    state.accumulate = false;
    for (const MicroBatch& micro_batch : shard.micro_batches) {
      state.first_sample = std::uint64_t(micro_batch.first_sample);
      const BoundProgram& program = programs.training(micro_batch.samples);
      timer_.start();
      load(program, loader, state.first_sample);
      run(*program.program, state, false);
      end_round(micro_batch.first_sample);
      state.accumulate = true;
    }
  }
  state.accumulate = true;
  if (batch.cluster > 1)
    join_missing_rounds(schedule, [&](const BoundProgram& program, int) {
      run(*program.program, state, false);
      end_round(-1);
    });
  {
    const DeviceWait waiting(context);
    context.backend().synchronize();  // the loader's memory is copied from until then
  }
  programs.packed().invalidate();  // on ranks that had none to compute, too: see GraphKey
  times = before;
  device_timer.leave_out();
  checks_ = checks_always_;
  if (!checks_) programs.check_finite(nullptr);
  return search_.gather(context.host_communicator(), batch.cluster > 1);
}

void ReplicaState::play_nan(std::int64_t step) {
  FaultInjector* const player = fault_injector();
  const PlannedFault* const fault =
      player == nullptr ? nullptr : player->take(FaultKind::nan, step + 1);
  if (fault == nullptr && !plays_nan_) return;
  plays_nan_ = fault != nullptr;
  programs.poison_after(plays_nan_ ? fault->layer : "");
}

void ReplicaState::stop_where_found(const Schedule& schedule, std::int64_t step) {
  const auto findings = search_.gather(context.host_communicator(), batch.cluster > 1);
  if (findings.empty()) return;
  const std::int64_t micro_batches = (schedule.samples - 1) / batch.micro_batch + 1;
  throw NonFiniteFoundError(
      fmt::format(
          "training: step {} is not finite: {}", step + 1, to_text(findings, micro_batches)),
      "LOCKSTEP_NAN_CHECK=1 stops at the first value that is not finite",
      findings.front(),
      step + 1);
}

}  // namespace lockstep
