// SPDX-License-Identifier: Apache-2.0
// Passes other than training steps: evaluation, and the search for the operator that computed a
// non-finite value, in every step with LOCKSTEP_NAN_CHECK=1 and when a bad step is computed again.
#include "core/base/check.h"
#include "core/step/fault_injector.h"
#include "parallel/comm/device_wait.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {
namespace {

/// Injects a planned fault into the first value that is not 0: in a 0 the bit would hardly matter.
bool flip_a_bit(Backend& device, float* values, std::int64_t elems) {
  constexpr std::uint32_t kBit = 1u << 20;
  for (std::int64_t i = 0; i < elems; ++i) {
    std::uint32_t bits = 0;
    device.copy_to_host(&bits, values + i, sizeof bits);
    if (bits << 1 == 0) continue;
    bits ^= kBit;
    device.copy_to_device(values + i, &bits, sizeof bits);
    return true;
  }
  return false;
}

}  // namespace

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
  // The device may still read the loader's memory, which is freed next.
  const auto stop = [&] {
    const bool stops = interrupted && interrupted();
    if (!stops) return false;
    const DeviceWait waiting(context);
    context.backend().synchronize();
    return true;
  };
  int rounds = 0;
  parts.evaluation_exchange.begin_step(schedule);
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
    if (s + 1 < schedule.work.size()) parts.evaluation_exchange.finish_shard();
  }
  for (; rounds < schedule.most_rounds; ++rounds)
    if (stop()) return std::nullopt;
  context.position().enter(Phase::exchange);
  parts.evaluation_exchange.start_bucket(0);
  parts.evaluation_exchange.finish_bucket(0);
  StepResult result;
  read_metrics(result);
  context.communicator().require_healthy();
  programs.packed().invalidate();  // on ranks that had none to evaluate, too: see GraphKey
  device_timer.skip_work();
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
  // The sums weigh every row by 1 / rows; the means are over the rows that are not ignored.
  const double counted = parts.metrics.counted < 0 ? 1.0 : double(read(parts.metrics.counted));
  result.counted = counted;
  result.loss = double(read(parts.metrics.loss)) / counted;
  if (parts.metrics.correct >= 0) result.accuracy = double(read(parts.metrics.correct)) / counted;
}

void ReplicaState::end_round(std::int64_t first_sample) {
  checks_.locator.end_round(first_sample < 0 ? -1 : first_sample / batch.micro_batch);
}

void ReplicaState::compute(Program& program, const RunState& state) {
  context.position().enter(Phase::forward);
  program.run_forward(state);
  context.position().enter(Phase::backward);
  program.run_backward(state);
}

std::vector<NonFiniteFinding> ReplicaState::find_nonfinite(const Schedule& schedule,
                                                           data::Loader& loader,
                                                           std::int64_t step) {
  const StepTimes before = times_;  // which are training's
  checks_.locator.begin();
  checks_.now = true;
  programs.check_finite(checks_.locator.report());
  RunState state{.seed = options.seed, .step = std::uint64_t(step), .group = group_.get()};
  set_sample_weight(schedule);
  inject_nan(step);
  for (const ShardWork& shard : schedule.work) {
    state.accumulate = false;
    for (const MicroBatch& micro_batch : shard.micro_batches) {
      state.first_sample = std::uint64_t(micro_batch.first_sample);
      const BoundProgram& program = programs.training(micro_batch.samples);
      timer_.start();
      load(program, loader, state.first_sample);
      compute(*program.program, state);
      end_round(micro_batch.first_sample);
      state.accumulate = true;
    }
  }
  state.accumulate = true;
  if (batch.cluster > 1)
    join_missing_rounds(schedule, [&](const BoundProgram& program, int) {
      compute(*program.program, state);
      end_round(-1);
    });
  {
    const DeviceWait waiting(context);
    context.backend().synchronize();  // the loader's memory is copied from until then
  }
  programs.packed().invalidate();  // on ranks that had none to compute, too: see GraphKey
  times_ = before;
  device_timer.skip_work();
  checks_.now = checks_.always;
  if (!checks_.now) programs.check_finite(nullptr);
  return checks_.locator.gather(context.host_communicator(), batch.cluster > 1);
}

/// Of the first trained parameter of which this rank updates some that is not zero.
void ReplicaState::flip_a_gradient() {
  const Graph& graph = programs.graph();
  for (const lockstep::Segment& segment : programs.space().segments) {
    const Parameter& parameter = graph.parameters()[std::size_t(segment.parameter)];
    if (parameter.kind != ParameterKind::trained || parameter.frozen) continue;
    for (const OwnedStretch& own : parts.ownership.within(segment.offset, segment.elems))
      if (flip_a_bit(
              context.backend(),
              programs.gradients() + own.offset + programs.compiled().gradients().shift_of(own),
              own.elems))
        return;
  }
}

void ReplicaState::inject_nan(std::int64_t step) {
  FaultInjector* const injector = fault_injector();
  const PlannedFault* const fault =
      injector == nullptr ? nullptr : injector->take(FaultKind::nan, step + 1);
  if (fault == nullptr && !checks_.injects_nan) return;
  checks_.injects_nan = fault != nullptr;
  programs.poison_after(checks_.injects_nan ? fault->layer : "");
}

void ReplicaState::stop_where_found(const Schedule& schedule, std::int64_t step) {
  const auto findings = checks_.locator.gather(context.host_communicator(), batch.cluster > 1);
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
