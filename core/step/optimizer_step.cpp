// SPDX-License-Identifier: Apache-2.0
#include "core/step/optimizer_step.h"

#include "core/base/check.h"

namespace lockstep {
namespace {

/// Padding between tensors is zero and stays zero under every optimizer, so that neighbours with
/// equal settings become one range.
void append(std::vector<FlatRange>& ranges, const FlatRange& range) {
  if (!ranges.empty()) {
    FlatRange& last = ranges.back();
    const std::int64_t end = last.offset + last.elems;
    if (range.offset - end < kSegmentAlignment && range.offset >= end &&
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
                             const float* gradients,
                             std::uint16_t* rounded)
    : backend_(backend),
      optimizer_(optimizer),
      parameters_(parameters),
      gradients_(gradients),
      rounded_(rounded),
      ranges_of_bucket_(space.buckets.size()) {
  validate(optimizer_);
  const std::vector<ParameterRates> rates = parameter_rates(graph.parameters(), optimizer_, rules);
  for (const Segment& segment : space.segments) {
    const Parameter& parameter = graph.parameters()[std::size_t(segment.parameter)];
    if (parameter.kind != ParameterKind::trained || parameter.frozen) continue;
    append(ranges_of_bucket_[std::size_t(segment.bucket)],
           {segment.offset,
            segment.elems,
            rates[std::size_t(segment.parameter)].weight_decay,
            rates[std::size_t(segment.parameter)].lr_scale});
  }
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

void OptimizerStep::update_bucket(int bucket,
                                  std::int64_t step,
                                  float lr,
                                  const StepOutcome* outcome,
                                  const StepCounters* counters) {
  const auto& ranges = ranges_of_bucket_[std::size_t(bucket)];
  if (ranges.empty()) return;
  OptimizerUpdate update{.optimizer = optimizer_,
                         .params = parameters_,
                         .grads = gradients_,
                         .rounded = rounded_,
                         .lr = lr,
                         .step = std::uint64_t(step),
                         .outcome = outcome,
                         .counters = counters};
  for (std::size_t i = 0; i < state_.size(); ++i) update.state[i] = state_[i]->as<float>();
  backend_.optimizer_update(update, ranges);
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
