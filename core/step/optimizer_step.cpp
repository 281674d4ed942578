// SPDX-License-Identifier: Apache-2.0
#include "core/step/optimizer_step.h"

#include "core/base/check.h"
#include "core/plan/hidden_matrices.h"

namespace lockstep {
namespace {

/// Whether each parameter, in declaration order, is a tensor with a norm: Note [Phases of an
/// update].
std::vector<bool> tensors_with_norms(const Graph& graph, const Optimizer& optimizer) {
  std::vector<bool> tensors(graph.parameters().size(), false);
  if (has_phase(optimizer, UpdatePhase::orthogonalize)) {
    for (const int matrix : hidden_matrices(graph)) tensors[std::size_t(matrix)] = true;
  } else if (has_phase(optimizer, UpdatePhase::direction_norms)) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      tensors[i] = !graph.parameters()[i].normalisation_or_bias;
  }
  return tensors;
}

// Padding between tensors is zero and stays zero under every optimizer, so that neighbours with
// equal settings become one range. Not so those whose norms are taken.
void append(std::vector<FlatRange>& ranges, const FlatRange& range) {
  if (!ranges.empty() && range.tensor < 0) {
    FlatRange& last = ranges.back();
    const std::int64_t end = last.offset + last.elems;
    if (last.tensor < 0 && range.offset - end < kSegmentAlignment && range.offset >= end &&
        last.weight_decay == range.weight_decay && last.lr_scale == range.lr_scale) {
      last.elems = range.offset + range.elems - last.offset;
      return;
    }
  }
  ranges.push_back(range);
}

}  // namespace

OptimizerStep::OptimizerStep(Backend& backend,
                             const Graph& graph,
                             const FlatSpace& space,
                             const Optimizer& optimizer,
                             const ParameterRules& rules,
                             float* parameters,
                             float* gradients,
                             std::uint16_t* rounded)
    : backend_(backend),
      optimizer_(optimizer),
      parameters_(parameters),
      gradients_(gradients),
      rounded_(rounded),
      phases_(update_phases(optimizer)),
      buckets_(space.buckets.size()) {
  validate(optimizer_);
  const std::vector<bool> with_norms = tensors_with_norms(graph, optimizer_);
  const std::vector<ParameterRates> rates = parameter_rates(graph.parameters(), optimizer_, rules);
  for (const Segment& segment : space.segments) {
    const Parameter& parameter = graph.parameters()[std::size_t(segment.parameter)];
    if (parameter.kind != ParameterKind::trained || parameter.frozen) continue;
    const bool has_norm = with_norms[std::size_t(segment.parameter)];
    const FlatRange range{.offset = segment.offset,
                          .elems = segment.elems,
                          .weight_decay = rates[std::size_t(segment.parameter)].weight_decay,
                          .lr_scale = rates[std::size_t(segment.parameter)].lr_scale,
                          .tensor = has_norm ? norm_count_++ : -1};
    BucketRanges& bucket = buckets_[std::size_t(segment.bucket)];
    append(bucket.all, range);
    append(has_norm ? bucket.tensors : bucket.others, range);
  }
  if (norm_count_ > 0)
    norms_ = backend.allocate(2 * std::size_t(norm_count_) * sizeof(double), "norms of tensors");
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    const Segment& segment = space.of(int(i));
    if (parameter.kind == ParameterKind::trained && !parameter.frozen)
      tensors_.push_back({segment.offset, segment.elems, 0.0f, 1.0f});
    else if (parameter.kind == ParameterKind::running_statistic)
      statistics_.push_back({segment.offset,
                             segment.elems,
                             space.of(parameter.weight_parameter).offset,
                             parameter.momentum});
  }
  backend.reserve_norms(tensors_);
  const int arrays = lockstep::state_arrays(optimizer_);
  LOCKSTEP_CHECK(arrays <= kMaxOptimizerState,
                 InternalError,
                 "{} has {} state arrays, more than {}: raise kMaxOptimizerState",
                 name_of(optimizer_),
                 arrays,
                 kMaxOptimizerState);
  for (int i = 0; i < arrays; ++i)
    state_.push_back(backend.allocate(std::size_t(space.elems) * 4, "optimizer state"));
}

void OptimizerStep::conclude(StepSums sums, StepOutcome* outcome) {
  sums.gradients = gradients_;
  sums.tensors = tensors_;
  backend_.conclude_step(sums, outcome);
}

void OptimizerStep::update(std::int64_t step,
                           float lr,
                           const StepOutcome* outcome,
                           const StepCounters* counters) {
  OptimizerUpdate update{.optimizer = optimizer_,
                         .params = parameters_,
                         .grads = gradients_,
                         .rounded = rounded_,
                         .lr = lr,
                         .step = std::uint64_t(step),
                         .outcome = outcome,
                         .counters = counters};
  for (std::size_t i = 0; i < state_.size(); ++i) update.state[i] = state_[i]->as<float>();
  if (norms_) {
    update.weight_norms = norms_->as<double>();
    update.direction_norms = norms_->as<double>() + norm_count_;
  }
  for (const UpdatePhase phase : phases_) run(phase, update);
}

void OptimizerStep::run(UpdatePhase phase, OptimizerUpdate& update) {
  update.phase = phase;
  const auto run_kernels = [&](std::vector<FlatRange> BucketRanges::*ranges) {
    for (const BucketRanges& bucket : buckets_)
      if (!(bucket.*ranges).empty()) backend_.optimizer_update(update, bucket.*ranges);
  };
  switch (phase) {
    case UpdatePhase::direction:
    case UpdatePhase::update:
      return run_kernels(&BucketRanges::all);
    case UpdatePhase::tensor_direction:
    case UpdatePhase::normalize:
    case UpdatePhase::tensor_update:
      return run_kernels(&BucketRanges::tensors);
    case UpdatePhase::update_others:
      return run_kernels(&BucketRanges::others);
    case UpdatePhase::weight_norms:
      return start_norms(parameters_, 0);
    case UpdatePhase::direction_norms:
      return start_norms(gradients_, norm_count_);
    case UpdatePhase::orthogonalize:
      LOCKSTEP_ASSERT(orthogonalization_ != nullptr);
      return orthogonalization_->run_forward({});
  }
}

void OptimizerStep::start_norms(const float* values, std::int64_t first) {
  for (const BucketRanges& bucket : buckets_) {
    if (bucket.tensors.empty()) continue;
    double* const norms = norms_->as<double>() + first + bucket.tensors.front().tensor;
    backend_.start_squared_norms(values, bucket.tensors, norms);
  }
}

StepCounters OptimizerStep::counters(std::int64_t step, float lr) const {
  return {.step = std::uint64_t(step),
          .scalars = step_scalars(optimizer_, std::uint64_t(step)),
          .lr = lr};
}

void OptimizerStep::update_running_statistics(const StepOutcome* outcome) {
  backend_.update_running_statistics(parameters_, gradients_, statistics_, outcome);
}

std::vector<FlatArray> OptimizerStep::state_arrays() {
  const std::vector<std::string_view> names = state_names(optimizer_);
  std::vector<FlatArray> arrays;
  for (std::size_t i = 0; i < state_.size(); ++i)
    arrays.push_back({std::string(names[i]), state_[i]->as<float>()});
  return arrays;
}

std::size_t OptimizerStep::state_bytes() const {
  std::size_t sum = 0;
  for (const auto& buffer : state_) sum += buffer->bytes();
  return sum;
}

}  // namespace lockstep
