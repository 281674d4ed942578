// SPDX-License-Identifier: Apache-2.0
#include "core/step/optimizer_step.h"

#include <algorithm>

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
                             const ClipRules& clip,
                             float* parameters,
                             float* gradients,
                             const GradientSpace& places,
                             std::uint16_t* rounded,
                             const Ownership& ownership,
                             OwnerExchange* owners)
    : backend_(backend),
      optimizer_(optimizer),
      parameters_(parameters),
      gradients_(gradients),
      places_(places),
      rounded_(rounded),
      clip_value_(clip.value),
      phases_(update_phases(optimizer)),
      owners_(owners) {
  validate(optimizer_);
  LOCKSTEP_ASSERT(!places_.divided() ||
                  (owners_ != nullptr && !has_phase(optimizer_, UpdatePhase::orthogonalize)));
  for (const OwnedStretch& stretch : ownership.stretches()) parts_.push_back({.stretch = stretch});
  std::vector<FlatRange> with_norm;
  std::vector<UnitTensor> matrices;  // these, where a phase has their rows
  const bool has_rows = has_phase(optimizer_, UpdatePhase::normalize_rows);
  const std::vector<bool> have_norms = tensors_with_norms(graph, optimizer_);
  const std::vector<ParameterRates> rates = parameter_rates(graph.parameters(), optimizer_, rules);
  for (const Segment& segment : space.segments) {
    const Parameter& parameter = graph.parameters()[std::size_t(segment.parameter)];
    if (parameter.kind != ParameterKind::trained || parameter.frozen) continue;
    const bool has_norm = have_norms[std::size_t(segment.parameter)];
    FlatRange range{.offset = segment.offset,
                    .elems = segment.elems,
                    .weight_decay = rates[std::size_t(segment.parameter)].weight_decay,
                    .lr_scale = rates[std::size_t(segment.parameter)].lr_scale,
                    .tensor = has_norm ? std::int32_t(with_norm.size()) : -1};
    if (has_norm) with_norm.push_back(range);
    if (has_norm && has_rows)
      matrices.push_back({.offset = segment.offset,
                          .elems = segment.elems,
                          .unit = as_matrix(parameter.shape)[1]});
    for (const OwnedStretch& own : ownership.within(segment.offset, segment.elems)) {
      range.offset = own.offset;
      range.elems = own.elems;
      Part& part = *std::ranges::upper_bound(
          parts_, own.offset, {}, [](const Part& p) { return p.stretch.end(); });
      append(part.all, range);
      append(has_norm ? part.tensors : part.others, range);
    }
  }
  if (!with_norm.empty()) {
    std::vector<double> facts(2 * with_norm.size());
    for (const FlatRange& tensor : with_norm) facts.push_back(double(tensor.elems));
    norms_ = backend.allocate(facts.size() * sizeof(double), "norms of tensors");
    backend.copy_to_device(norms_->data(), facts.data(), norms_->bytes());
    tensor_norms_.emplace(backend, std::move(with_norm), owners_);
  }
  if (!matrices.empty()) {
    rows_.emplace(backend, space, matrices, ownership, owners_);
    if (rows_->units_in_parts() > 0)
      row_norms_ = backend.allocate(std::size_t(rows_->units_in_parts()) * sizeof(double),
                                    "squared norms of rows");
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
  gradient_norms_.emplace(backend, tensors_, owners_);
  if (clip.agc > 0)
    unit_clipping_.emplace(
        backend, graph, space, clip.agc, parameters, gradients, places, ownership, owners_);
  if (owners_ != nullptr)
    squares_ = backend.allocate(tensors_.size() * sizeof(double), "norms of gradients");
  const int arrays = lockstep::state_arrays(optimizer_);
  LOCKSTEP_CHECK(arrays <= kMaxOptimizerState,
                 InternalError,
                 "{} has {} state arrays, more than {}: raise kMaxOptimizerState",
                 name_of(optimizer_),
                 arrays,
                 kMaxOptimizerState);
  for (int i = 0; i < arrays; ++i)
    state_.push_back(
        backend.allocate(std::size_t(ownership.elems()) * sizeof(float), "optimizer state"));
}

void OptimizerStep::conclude(StepSums sums, StepOutcome* outcome) {
  sums.gradients = gradients_;
  sums.tensors = tensors_;
  if (owners_ != nullptr) {
    start_norms_of_gradients(*gradient_norms_, squares_->as<double>());
    sums.norms = squares_->as<double>();
  }
  backend_.conclude_step(sums, outcome);
}

void OptimizerStep::update(std::int64_t step,
                           float lr,
                           const StepOutcome* outcome,
                           const StepCounters* counters) {
  clip_gradients(outcome);
  OptimizerUpdate update{.optimizer = optimizer_,
                         .params = parameters_,
                         .grads = gradients_,
                         .rounded = rounded_,
                         .lr = lr,
                         .step = std::uint64_t(step),
                         .outcome = outcome,
                         .counters = counters};
  if (norms_) {
    update.weight_norms = norms_->as<double>();
    update.direction_norms = direction_norms();
    update.tensor_elems = tensor_elems();
    update.row_norms = row_norms();
  }
  for (const UpdatePhase phase : phases_) run(phase, update);
}

void OptimizerStep::clip_gradients(const StepOutcome* outcome) {
  if (clip_value_ > 0)
    for (const Part& part : parts_)
      backend_.clip_values(
          gradients_ + places_.shift_of(part.stretch), clip_value_, part.all, outcome);
  if (unit_clipping_) unit_clipping_->run(outcome);
}

void OptimizerStep::set_orthogonalization(Program& program, MatrixExchange* matrices) {
  orthogonalization_ = &program;
  matrices_ = matrices;
  nodes_of_matrix_.clear();
  // Each matrix has a path of its own.
  const std::vector<Node>& nodes = program.graph().nodes();
  for (NodeId first = 0, node = 0; node < NodeId(nodes.size()); ++node) {
    const NodeId next = node + 1;
    if (next < NodeId(nodes.size()) &&
        nodes[std::size_t(next)].path == nodes[std::size_t(node)].path)
      continue;
    nodes_of_matrix_.emplace_back(first, next);
    first = next;
  }
}

void OptimizerStep::exchange_alone(MatrixExchange* matrices) {
  if (owners_ != nullptr) start_norms_of_gradients(*gradient_norms_, squares_->as<double>());
  if (unit_clipping_) unit_clipping_->exchange_norms();
  for (const UpdatePhase phase : phases_) {
    const bool is_norm =
        phase == UpdatePhase::weight_norms || phase == UpdatePhase::direction_norms;
    if (is_norm && tensor_norms_) start_norms_of_gradients(*tensor_norms_, norms_->as<double>());
    if (phase == UpdatePhase::normalize_rows && rows_) rows_->start_norms(gradients_, row_norms());
    if (phase != UpdatePhase::orthogonalize || matrices == nullptr) continue;
    matrices->gather();
    matrices->scatter();
  }
}

void OptimizerStep::orthogonalize() {
  LOCKSTEP_ASSERT(orthogonalization_ != nullptr);
  if (matrices_ == nullptr) return orthogonalization_->run_forward({});
  matrices_->gather();
  for (const int matrix : matrices_->own()) {
    const auto [first, end] = nodes_of_matrix_.at(std::size_t(matrix));
    orthogonalization_->run(orthogonalization_->forward_part(first, end), {});
  }
  matrices_->scatter();
}

void OptimizerStep::run(UpdatePhase phase, OptimizerUpdate& update) {
  update.phase = phase;
  const auto run_kernels = [&](std::vector<FlatRange> Part::*ranges) {
    for (const Part& part : parts_) {
      if ((part.*ranges).empty()) continue;
      set_arrays(update, part.stretch);
      backend_.optimizer_update(update, part.*ranges);
    }
  };
  switch (phase) {
    case UpdatePhase::direction:
    case UpdatePhase::update:
      return run_kernels(&Part::all);
    case UpdatePhase::tensor_direction:
    case UpdatePhase::normalize:
    case UpdatePhase::tensor_update:
      return run_kernels(&Part::tensors);
    case UpdatePhase::update_others:
      return run_kernels(&Part::others);
    case UpdatePhase::normalize_rows:
      return rows_ ? run_rows(update) : void();
    case UpdatePhase::weight_norms:
      return tensor_norms_ ? tensor_norms_->start(parameters_, norms_->as<double>()) : void();
    case UpdatePhase::direction_norms:
      return tensor_norms_ ? start_norms_of_gradients(*tensor_norms_, direction_norms()) : void();
    case UpdatePhase::orthogonalize:
      return orthogonalize();
  }
}

void OptimizerStep::run_rows(OptimizerUpdate& update) {
  rows_->start_norms(gradients_, row_norms());
  for (const OwnedUnits::Part& part : rows_->parts()) {
    set_arrays(update, part.stretch);
    update.rows = part.ranges;
    backend_.optimizer_update(update, {});
  }
  update.rows = {};
}

void OptimizerStep::start_norms_of_gradients(TensorNorms& norms, double* result) {
  places_.divided() ? norms.start_of_owned(gradients_, result) : norms.start(gradients_, result);
}

/// So that offsets of the flat space find the gradients and the state of what the rank owns.
void OptimizerStep::set_arrays(OptimizerUpdate& update, const OwnedStretch& stretch) {
  update.grads = gradients_ + places_.shift_of(stretch);
  const std::int64_t shift = stretch.local - stretch.offset;
  for (std::size_t i = 0; i < state_.size(); ++i) update.state[i] = state_[i]->as<float>() + shift;
}

double* OptimizerStep::direction_norms() {
  return norms_->as<double>() + tensor_norms_->tensors().size();
}

double* OptimizerStep::tensor_elems() {
  return direction_norms() + tensor_norms_->tensors().size();
}

std::size_t OptimizerStep::norm_bytes() const {
  std::size_t sum = gradient_norms_->bytes();
  if (tensor_norms_) sum += norms_->bytes() + tensor_norms_->bytes();
  if (squares_) sum += squares_->bytes();
  if (unit_clipping_) sum += unit_clipping_->bytes();
  if (rows_) sum += rows_->bytes();
  if (row_norms_) sum += row_norms_->bytes();
  return sum;
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
    arrays.push_back({std::string(names[i]), state_[i]->as<float>(), /*owned=*/owners_ != nullptr});
  return arrays;
}

std::size_t OptimizerStep::state_bytes() const {
  std::size_t sum = 0;
  for (const auto& buffer : state_) sum += buffer->bytes();
  return sum;
}

}  // namespace lockstep
