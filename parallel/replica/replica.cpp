// SPDX-License-Identifier: Apache-2.0
#include "lockstep/replica.h"

#include <chrono>
#include <exception>

#include "core/base/check.h"
#include "core/base/sha256.h"
#include "core/io/weights.h"
#include "core/step/fault_injector.h"
#include "parallel/batch/schedule.h"
#include "parallel/comm/device_wait.h"
#include "parallel/replica/memory_table.h"
#include "parallel/replica/replica_check.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {

Replica::Replica(RankContext& context,
                 const ModelFunction& model,
                 const LossFunction& loss,
                 const data::SampleSpec& samples,
                 const TrainOptions& options,
                 std::vector<std::int64_t> tail_sizes)
    : Replica(context,
              model,
              loss,
              samples,
              options,
              plan_batch(options, context.size()),
              std::move(tail_sizes)) {}

Replica::Replica(RankContext& context,
                 const ModelFunction& model,
                 const LossFunction& loss,
                 const data::SampleSpec& samples,
                 const TrainOptions& options,
                 const BatchPlan& batch,
                 std::vector<std::int64_t> tail_sizes)
    : state_(std::make_unique<ReplicaState>(
          context, model, loss, samples, options, batch, std::move(tail_sizes))) {}

// An exception may leave exchanges in flight, and MPI cannot cancel them: peers still write into
// these buffers while this rank reports its error. So they are leaked; the process ends soon.
Replica::~Replica() {
  const bool in_flight =
      state_->parts.exchange.in_flight() || state_->parts.evaluation_exchange.in_flight();
  if (std::uncaught_exceptions() > 0 && in_flight) (void)state_.release();
}

const BatchPlan& Replica::batch() const { return state_->batch; }

const std::optional<io::LoadReport>& Replica::initial_weights() const {
  return state_->initial_weights;
}

Schedule Replica::schedule(std::int64_t samples) const {
  return training_schedule(state_->batch, samples, state_->context.rank());
}

std::int64_t Replica::micro_batches(const Schedule& schedule) const {
  return (schedule.samples - 1) / state_->batch.micro_batch + 1;
}

std::vector<NonFiniteFinding> Replica::find_nonfinite(const Schedule& schedule,
                                                      data::Loader& loader,
                                                      std::int64_t step) {
  return state_->find_nonfinite(schedule, loader, step);
}

Schedule Replica::evaluation_schedule(std::int64_t samples) const {
  const BatchPlan& b = state_->batch;
  return make_schedule({.samples = samples,
                        .micro_batch = b.micro_batch,
                        .shards = evaluation_shards(b),
                        .ranks = b.ranks},
                       state_->context.rank());
}

void Replica::compile_for_evaluation(std::int64_t samples) {
  state_->compile_for_evaluation(samples);
}

void Replica::lend_memory(data::LoaderOptions& options) const { state_->lend_memory(options); }

std::span<const StepResult> Replica::train_step(const Schedule& schedule,
                                                data::Loader& loader,
                                                std::int64_t step,
                                                float lr) {
  FaultInjector* const injector = fault_injector();
  if (injector != nullptr && injector->take(FaultKind::flip_weight, step + 1) != nullptr)
    flip_bit(0, 0, 20);
  return state_->train_step(schedule, loader, step, lr);
}

std::optional<GraphUse> Replica::graph_use() const { return state_->graph_use(); }

std::span<const StepResult> Replica::finish_steps() {
  const auto begin = std::chrono::steady_clock::now();
  const std::span<const StepResult> results = [this] {
    const DeviceWait waiting(state_->context);
    return state_->parts.outcomes.take_all();
  }();
  state_->times.device_wait +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  require_healthy();
  return results;
}

const StepResult& Replica::newest_result() {
  const DeviceWait waiting(state_->context);
  const StepResult& result = state_->parts.outcomes.newest();
  require_healthy();
  return result;
}

void Replica::require_healthy() const { state_->context.communicator().require_healthy(); }

void Replica::resume_updates() {
  const DeviceWait waiting(state_->context);
  state_->parts.outcomes.clear_error();
}

void Replica::time_next_step() { state_->device_timer.measure_next_step(); }

std::optional<DeviceTimes> Replica::device_times(std::int64_t step) const {
  return state_->device_timer.of(step);
}

void Replica::leave_out_of_device_times() { state_->device_timer.skip_work(); }

ShardNorms& Replica::shard_norms() { return state_->parts.shard_norms; }

StepResult Replica::evaluate(const Schedule& schedule, data::Loader& loader) {
  return *state_->evaluate(schedule, loader, {});
}

std::optional<StepResult> Replica::evaluate(const Schedule& schedule,
                                            data::Loader& loader,
                                            const std::function<bool()>& interrupted) {
  return state_->evaluate(schedule, loader, interrupted);
}

Position& Replica::position() { return state_->context.position(); }

StepTimes Replica::times() const {
  StepTimes times = state_->times;
  times.exposed_communication = state_->parts.exchange.exposed_seconds();
  return times;
}

std::size_t Replica::activation_bytes() const { return state_->programs.arena_bytes(); }

MemoryTable Replica::memory() const { return state_->memory(); }

std::uint64_t Replica::baseline_bytes() const { return state_->programs.baseline_bytes(); }

Profiler* Replica::profiler() { return state_->profiler.get(); }

std::uint64_t Replica::bytes_sent() const { return state_->parts.exchange.bytes_sent(); }

namespace {

std::vector<io::NamedTensor> copy_tensors(Backend& backend,
                                          const Graph& graph,
                                          const FlatSpace& space,
                                          const float* flat,
                                          bool trained_only) {
  std::vector<io::NamedTensor> tensors;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    if (parameter.kind == ParameterKind::metric) continue;
    if (trained_only && (parameter.kind != ParameterKind::trained || parameter.frozen)) continue;
    std::vector<float> values(std::size_t(parameter.shape.elems()));
    backend.copy_to_host(
        values.data(), flat + space.of(int(i)).offset, values.size() * sizeof(float));
    tensors.push_back({parameter, std::move(values)});
  }
  return tensors;
}

}  // namespace

std::vector<io::NamedTensor> Replica::weights() const {
  ReplicaState& s = *state_;
  return copy_tensors(
      s.context.backend(), s.programs.graph(), s.programs.space(), s.programs.parameters(), false);
}

std::string Replica::weights_sha256() const {
  ReplicaState& s = *state_;
  const Graph& graph = s.programs.graph();
  Sha256 hash;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    if (parameter.kind == ParameterKind::metric) continue;
    std::span<const float> values(s.programs.parameters() + s.programs.space().of(int(i)).offset,
                                  std::size_t(parameter.shape.elems()));
    std::vector<float> copy;
    if (!s.context.backend().is_host_memory(values.data())) {
      copy.resize(values.size());
      s.context.backend().copy_to_host(copy.data(), values.data(), values.size_bytes());
      values = copy;
    }
    io::for_file_layout(parameter, values, [&](std::span<const float> piece) {
      hash.update(std::as_bytes(piece));
    });
  }
  return hash.hex();
}

std::vector<io::NamedTensor> Replica::gradients() const {
  ReplicaState& s = *state_;
  return copy_tensors(
      s.context.backend(), s.programs.graph(), s.programs.space(), s.programs.gradients(), true);
}

SavedArrays Replica::saved_arrays() const {
  ReplicaState& s = *state_;
  SavedArrays saved{
      s.context.backend(), s.programs.graph(), s.programs.space(), {{"", s.programs.parameters()}}};
  for (FlatArray& array : s.parts.optimizer.state_arrays())
    saved.arrays.push_back(std::move(array));
  return saved;
}

void Replica::restore(const std::string& checkpoint) {
  lockstep::restore(saved_arrays(), checkpoint);
  state_->programs.packed().invalidate();
  resume_updates();
  state_->device_timer.skip_work();
}

std::string Replica::flip_bit(std::size_t array, std::int64_t index, int bit) {
  const SavedArrays saved = saved_arrays();
  std::vector<ComparedTensor> tensors = compared_tensors(saved);
  std::erase_if(tensors, [&](const ComparedTensor& tensor) { return tensor.array != array; });
  std::int64_t elems = 0;
  for (const ComparedTensor& tensor : tensors) elems += tensor.range.elems;
  LOCKSTEP_CHECK(elems > 0 && index >= 0 && bit >= 0 && bit < 32,
                 ConfigError,
                 "flip: array {} of {}, element {}, bit {}: does not exist",
                 array,
                 saved.arrays.size(),
                 index,
                 bit);
  index %= elems;
  auto tensor = tensors.begin();
  for (; index >= tensor->range.elems; ++tensor) index -= tensor->range.elems;
  float* place = saved.arrays[array].values + tensor->range.offset + index;
  std::uint32_t bits = 0;
  saved.backend.copy_to_host(&bits, place, sizeof bits);
  bits ^= 1u << bit;
  saved.backend.copy_to_device(place, &bits, sizeof bits);
  state_->programs.packed().invalidate();
  const std::string& name = saved.graph.parameters()[std::size_t(tensor->parameter)].name;
  return array == 0 ? name : name + "." + saved.arrays[array].name;
}

std::string Replica::program_text() const {
  ProgramSet& programs = state_->programs;
  return to_text(programs.graph()) + to_text(programs.space(), programs.graph()) +
         to_text(programs.plan());
}

}  // namespace lockstep
