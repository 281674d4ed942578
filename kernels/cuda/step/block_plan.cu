// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "kernels/cuda/step/block_plan.h"

namespace lockstep::cuda {
namespace {

/// Stands for the shared memory of a loss's rows.
constexpr float kLossRows[1] = {};

bool is_elementwise(const BlockStep& step) {
  return step.head.kind == BlockStep::Kind::relu || step.head.kind == BlockStep::Kind::relu_bwd;
}

}  // namespace

bool BlockPlanner::Bytes::overlaps(const Bytes& other) const {
  const auto first = [](const Bytes& b) { return static_cast<const std::byte*>(b.begin); };
  const std::less<> before;
  return before(first(*this), first(other) + other.size) &&
         before(first(other), first(*this) + size);
}

BlockPlanner::Bytes BlockPlanner::Use::bytes() const {
  return {memory, std::size_t(rows) * std::size_t(columns) * sizeof(float)};
}

bool BlockPlanner::add(BlockStep step) {
  BlockPlanner changed = *this;
  if (!changed.add_changed(step)) return false;
  *this = std::move(changed);
  return true;
}

bool BlockPlanner::add_changed(BlockStep& step) {
  if (is_elementwise(step) && fuse(step)) return true;
  if (program_.count == BlockProgram::kMax) return false;
  const std::vector<Use> uses = uses_of(step);
  const BlockPlanner before = *this;
  if (!stage_inputs(uses)) {
    *this = before;
    give_up();
    if (!stage_inputs(uses)) return false;
  }
  step.head.meets = must_meet(uses);
  if (step.head.meets) uses_.clear();
  const std::optional<Matrix> result =
      is_elementwise(step) ? stage_elementwise(step.elementwise) : std::nullopt;
  stage_outputs(uses);
  if (result) staged_.push_back(*result);
  note_uses(uses);
  program_.steps[program_.count++] = step;
  for (int i = first_step_; i < program_.count; ++i)
    program_.steps[i].head.loads_end = std::int16_t(loads_);
  return true;
}

// A ReLU's gradient becomes part of the step that has just computed its input.
bool BlockPlanner::fuse(BlockStep& step) {
  if (program_.count == 0 || step.head.kind != BlockStep::Kind::relu_bwd) return false;
  BlockStep& last = program_.steps[program_.count - 1];
  if (last.head.kind != BlockStep::Kind::linear_bwd_data) return false;
  SmallLinearBwdData& data = last.linear_bwd_data;
  SmallElementwise& relu = step.elementwise;
  const std::vector<Use> uses = uses_of(relu);
  if (data.relu_y != nullptr || data.dx != relu.a || data.rows * data.in != relu.elems ||
      must_meet(uses))
    return false;
  const std::optional<Matrix> result = stage_elementwise(relu);
  const bool same_columns = relu.columns == data.in;
  data.relu_y = relu.b;
  data.relu_y_at = same_columns ? relu.b_at : kNotStaged;
  if (relu.y != data.dx) {
    data.before_relu = data.dx;
    data.before_relu_at = data.dx_at;
  }
  data.dx = relu.y;
  data.dx_at = same_columns ? relu.y_at : kNotStaged;
  stage_outputs(uses);
  if (result && same_columns) staged_.push_back(*result);
  note_uses(uses);
  return true;
}

// Threads meet before the loads that follow, and after these.
void BlockPlanner::give_up() {
  staged_.clear();
  written_.clear();
  uses_.clear();
  staged_end_ = kFirstStaged;
  first_step_ = program_.count;
}

std::vector<BlockPlanner::Use> BlockPlanner::uses_of(SmallElementwise& s) {
  using enum Use::Kind;
  // Their places are known already.
  return {{s.a, 1, s.elems, nullptr, reads, true},
          {s.b, 1, s.elems, nullptr, reads, true},
          {s.y, 1, s.elems, nullptr, writes, true}};
}

std::vector<BlockPlanner::Use> BlockPlanner::uses_of(BlockStep& step) {
  using enum Use::Kind;
  switch (step.head.kind) {
    case BlockStep::Kind::linear: {
      SmallLinear& s = step.linear;
      s.by_out = inverse_of(s.out);
      return {{s.x, s.rows, s.in, &s.x_at, needs},
              {s.weight, s.out, s.in, &s.weight_at, needs},
              {s.bias, 1, s.out, &s.bias_at, reads},
              {s.y, s.rows, s.out, &s.y_at, writes, true},
              {s.before, s.rows, s.out, &s.before_at, writes, true}};
    }
    case BlockStep::Kind::linear_bwd_data: {
      SmallLinearBwdData& s = step.linear_bwd_data;
      s.by_in = inverse_of(s.in);
      s.relu_y = s.before_relu = nullptr;
      s.relu_y_at = s.before_relu_at = kNotStaged;
      return {{s.dy, s.rows, s.out, &s.dy_at, needs},
              {s.weight, s.out, s.in, &s.weight_at, needs},
              {s.h, s.rows, s.in, &s.h_at, reads, true},
              {s.dx, s.rows, s.in, &s.dx_at, writes, true}};
    }
    case BlockStep::Kind::linear_bwd_weights: {
      SmallLinearBwdWeights& s = step.linear_bwd_weights;
      s.by_columns = inverse_of(s.in + (s.dbias != nullptr ? 1 : 0));
      return {{s.x, s.rows, s.in, &s.x_at, needs},
              {s.dy, s.rows, s.out, &s.dy_at, needs},
              {s.dweight, s.out, s.in, nullptr, writes},
              {s.dbias, 1, s.out, nullptr, writes}};
    }
    case BlockStep::Kind::relu:
    case BlockStep::Kind::relu_bwd:
      return uses_of(step.elementwise);
    case BlockStep::Kind::loss: {
      SmallLoss& s = step.loss;
      const CrossEntropy<float>& a = s.work;
      const int rows = int(a.rows), pitch = int(a.pitch);
      s.logits_at = s.dlogits_at = kNotStaged;
      const bool dense = a.pitch == a.classes;
      return {{a.logits, rows, pitch, dense ? &s.logits_at : nullptr, reads},
              {a.labels, 1, rows, &s.labels_at, reads},
              {a.sample_weight, 1, 1, &s.weight_at, reads, false, true},
              {a.dlogits, rows, pitch, dense ? &s.dlogits_at : nullptr, writes},
              {s.outputs.values[0], 1, 1, nullptr, writes, false, true},
              {s.outputs.values[1], 1, 1, nullptr, writes, false, true},
              {s.outputs.values[2], 1, 1, nullptr, writes, false, true},
              {kLossRows, 1, 1, nullptr, writes, false, true}};
    }
  }
  return {};
}

const BlockPlanner::Matrix* BlockPlanner::find(const Bytes& bytes) const {
  const auto at = std::ranges::find(staged_, bytes, &Matrix::bytes);
  return at == staged_.end() ? nullptr : &*at;
}

StagedAt BlockPlanner::reserve(int rows, int columns) {
  const int words = rows == 1 ? (columns + 3) / 4 * 4 : rows * staged_pitch(columns);
  if (staged_end_ + words > kMaxStaged) return kNotStaged;
  const auto at = StagedAt(staged_end_);
  staged_end_ += words;
  return at;
}

bool BlockPlanner::load(const Use& use) {
  const auto overlaps = [&](const Bytes& bytes) { return bytes.overlaps(use.bytes()); };
  if (loads_ == BlockProgram::kMaxLoads || std::ranges::any_of(written_, overlaps)) return false;
  *use.at = reserve(use.rows, use.columns);
  if (!is_staged(*use.at)) return false;
  program_.loads[loads_] = {static_cast<const float*>(use.memory),
                            inverse_of(use.columns),
                            *use.at,
                            std::int16_t(use.columns)};
  const int begin = loads_ == 0 ? 0 : program_.load_ends[loads_ - 1];
  program_.load_ends[loads_++] = begin + use.rows * use.columns;
  staged_.push_back({use.bytes(), use.columns, *use.at});
  return true;
}

bool BlockPlanner::stage_inputs(const std::vector<Use>& uses) {
  for (const Use& use : uses) {
    if (use.kind == Use::Kind::writes || use.at == nullptr) continue;
    *use.at = kNotStaged;
    if (use.memory == nullptr || use.bytes().size == 0) continue;
    const Matrix* const staged = find(use.bytes());
    if (staged != nullptr && staged->columns == use.columns)
      *use.at = staged->at;
    else if (!load(use) && use.kind == Use::Kind::needs)
      return false;
  }
  return true;
}

void BlockPlanner::stage_outputs(const std::vector<Use>& uses) {
  for (const Use& use : uses) {
    if (use.kind != Use::Kind::writes) continue;
    if (use.at != nullptr) *use.at = kNotStaged;
    if (use.memory == nullptr || use.bytes().size == 0) continue;
    written_.push_back(use.bytes());
    std::erase_if(staged_, [&](const Matrix& m) { return m.bytes.overlaps(use.bytes()); });
    if (use.at == nullptr) continue;
    *use.at = reserve(use.rows, use.columns);
    if (is_staged(*use.at)) staged_.push_back({use.bytes(), use.columns, *use.at});
  }
}

// Of inputs that are staged, with the same columns, and of the result where one is.
std::optional<BlockPlanner::Matrix> BlockPlanner::stage_elementwise(SmallElementwise& s) {
  const auto bytes = [&](const float* memory) {
    return Bytes{memory, std::size_t(s.elems) * sizeof(float)};
  };
  const Matrix* const a = find(bytes(s.a));
  const Matrix* const b = s.b == nullptr ? nullptr : find(bytes(s.b));
  const Matrix* const first = a != nullptr ? a : b;
  s.columns = first == nullptr ? s.elems : first->columns;
  s.by_columns = inverse_of(s.columns);
  s.a_at = a == nullptr ? kNotStaged : a->at;
  s.b_at = b == nullptr || b->columns != s.columns ? kNotStaged : b->at;
  s.y_at = kNotStaged;
  if (first == nullptr) return {};
  if (s.y == s.a)
    s.y_at = s.a_at;
  else if (s.y == s.b)
    s.y_at = s.b_at;
  else
    s.y_at = reserve(s.elems / s.columns, s.columns);
  if (!is_staged(s.y_at)) return {};
  return Matrix{bytes(s.y), s.columns, s.y_at};
}

bool BlockPlanner::must_meet(const std::vector<Use>& uses) const {
  const auto meet = [](const Use& a, const Use& b) {
    if (a.kind != Use::Kind::writes && b.kind != Use::Kind::writes) return false;
    if (a.own_elements && b.own_elements && a.bytes() == b.bytes()) return false;
    return a.bytes().overlaps(b.bytes());
  };
  return std::ranges::any_of(uses, [&](const Use& use) {
    return std::ranges::any_of(uses_, [&](const Use& earlier) { return meet(use, earlier); });
  });
}

void BlockPlanner::note_uses(const std::vector<Use>& uses) {
  const bool meets = std::ranges::any_of(uses, &Use::after_meeting);
  if (meets) uses_.clear();
  for (const Use& use : uses)
    if (use.memory != nullptr && (use.after_meeting || !meets)) uses_.push_back(use);
}

}  // namespace lockstep::cuda
