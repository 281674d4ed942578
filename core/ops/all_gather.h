// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// The parts of one batch-norm group from the `parts` ranks of RunState::group, in rank order.
/// Shapes: [1, 1, ...] -> [1, parts, ...], f32. Runs on every rank of the group at the same place
/// of its program, also on a rank that has no samples.
class AllGather final : public OpBase<OpKind::all_gather> {
 public:
  explicit AllGather(std::int64_t parts) : parts_(parts) {}
  std::int64_t parts() const { return parts_; }

  std::string attributes() const override { return fmt::format("parts={}", parts_); }
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;

 private:
  std::int64_t parts_;
};

}  // namespace lockstep::ops
