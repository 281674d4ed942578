// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/check.h"
#include "core/graph/graph.h"

namespace lockstep {

/// Base of the classes in core/ops: fixes the kind and counts bytes.
template <OpKind K>
class OpBase : public Operator {
 public:
  static constexpr OpKind kKind = K;
  OpKind kind() const final { return K; }

  /// Default: one operation per output element, every tensor moved once.
  Cost cost(std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) const override {
    Cost cost;
    for (const TensorType& t : inputs) cost.bytes += double(t.bytes());
    for (const TensorType& t : outputs) {
      cost.bytes += double(t.bytes());
      cost.flops += double(t.elems());
    }
    return cost;
  }
};

template <typename T>
const T& op_cast(const Operator& op) {
  LOCKSTEP_ASSERT(op.kind() == T::kKind);
  return static_cast<const T&>(op);
}

/// Throws ShapeError "<op>: expected <count> inputs" unless there are that many.
void expect_inputs(std::string_view op, std::span<const TensorType> inputs, std::size_t count);
/// Throws ShapeError "<op>: <what> must be ..., got ..." unless rank and dtype match.
void expect_tensor(std::string_view op,
                   std::string_view what,
                   const TensorType& type,
                   int rank,
                   DType dtype = DType::f32);
/// Throws ShapeError unless `type` is f32 or bf16 with `rank` dimensions (-1: any): an activation.
void expect_activation(std::string_view op,
                       std::string_view what,
                       const TensorType& type,
                       int rank = -1);
/// Throws ShapeError unless both types are equal.
void expect_same(std::string_view op,
                 std::string_view what,
                 const TensorType& actual,
                 const TensorType& expected);

}  // namespace lockstep
