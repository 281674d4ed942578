// SPDX-License-Identifier: Apache-2.0
#include "lockstep/replica.h"

#include <exception>
#include <fmt/format.h>

#include "core/base/sha256.h"
#include "core/io/weights.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"
#include "parallel/comm/device_wait.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {

Replica::Replica(RankContext& context,
                 const ModelFunction& model,
                 const LossFunction& loss,
                 const data::SampleSpec& samples,
                 const TrainOptions& options,
                 std::vector<std::int64_t> tail_sizes)
    : Replica(std::make_unique<ReplicaState>(context,
                                             model,
                                             loss,
                                             samples,
                                             options,
                                             plan_batch(options, context.size()),
                                             std::move(tail_sizes))) {}

Replica::Replica(std::unique_ptr<ReplicaState> state) : state_(std::move(state)) {}

ReplicaState& ReplicaState::of(const Replica& replica) { return *replica.state_; }

std::unique_ptr<Replica> ReplicaState::make_replica(std::unique_ptr<ReplicaState> state) {
  return std::unique_ptr<Replica>(new Replica(std::move(state)));
}

// An exception may leave exchanges in flight, and MPI cannot cancel them: peers still write into
// these buffers while this rank reports its error. So they are leaked; the process ends soon. Where
// ranks outlive another one's death (MpiSession), none writes there any more.
Replica::~Replica() {
  const ReplicaParts& parts = state_->parts;
  const bool in_flight = parts.exchange.in_flight() || parts.evaluation_exchange.in_flight() ||
                         (parts.owners && parts.owners->in_flight());
  if (std::uncaught_exceptions() > 0 && in_flight && !MpiSession::lost_rank())
    (void)state_.release();
}

const BatchPlan& Replica::batch() const { return state_->batch; }

const std::optional<io::LoadReport>& Replica::initial_weights() const {
  return state_->initial_weights;
}

Schedule Replica::schedule(std::int64_t samples) const {
  const Schedule schedule = training_schedule(state_->batch, samples, state_->context.rank());
  state_->expect_trainable(schedule);
  return schedule;
}

std::int64_t Replica::micro_batches(const Schedule& schedule) const {
  return (schedule.samples - 1) / state_->batch.micro_batch + 1;
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

void Replica::initialise_from(const data::Dataset& training) { state_->initialise_from(training); }

void Replica::lend_memory(data::LoaderOptions& options) const { state_->lend_memory(options); }

std::span<const StepResult> Replica::train_step(const Schedule& schedule,
                                                data::Loader& loader,
                                                std::int64_t step,
                                                float lr) {
  if (const auto& missing = state_->from_training_data; !missing.empty())
    throw ConfigError(
        fmt::format("replica: {} starts from the training images, and has not got them",
                    missing.front()),
        "call initialise_from() with the training data before the first step, or load weights "
        "with `init`");
  return state_->train_step(schedule, loader, step, lr);
}

std::optional<GraphUse> Replica::graph_use() const { return state_->graph_use(); }

std::span<const StepResult> Replica::finish_steps() {
  const std::span<const StepResult> results = state_->take_results();
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

void Replica::resume_updates() { state_->resume_updates(); }

void Replica::time_next_step() { state_->device_timer.measure_next_step(); }

std::optional<DeviceTimes> Replica::device_times(std::int64_t step) const {
  return state_->device_timer.of(step);
}

StepResult Replica::evaluate(const Schedule& schedule, data::Loader& loader) {
  return *state_->evaluate(schedule, loader, {});
}

std::optional<StepResult> Replica::evaluate(const Schedule& schedule,
                                            data::Loader& loader,
                                            const std::function<bool()>& interrupted) {
  return state_->evaluate(schedule, loader, interrupted);
}

std::size_t Replica::activation_bytes() const { return state_->programs.arena_bytes(); }

std::uint64_t Replica::bytes_sent() const {
  return state_->parts.exchange.bytes_sent() + state_->parts.update_sent().both().all;
}

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
  s.gather_weights();
  return copy_tensors(
      s.context.backend(), s.programs.graph(), s.programs.space(), s.programs.parameters(), false);
}

std::string Replica::weights_sha256() const {
  ReplicaState& s = *state_;
  s.gather_weights();
  if (!s.context.backend().has_memory()) return {};
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
  if (s.programs.compiled().gradients().divided())
    throw ConfigError("replica: no rank has whole gradients",
                      "train with `sharding` none to look at them");
  return copy_tensors(
      s.context.backend(), s.programs.graph(), s.programs.space(), s.programs.gradients(), true);
}

}  // namespace lockstep
