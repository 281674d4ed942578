// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/shape.h"
#include "lockstep/value.h"

namespace lockstep {

class GradientBuilder;
struct Node;

/// One enumerator for each line of core/graph/op_list.inc.
enum class OpKind : std::uint16_t {
#define LOCKSTEP_OP(Type, stem) stem,
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP
};

std::string_view name_of(OpKind kind);

/// Work of one run of an operator, for the roofline and the plan.
struct Cost {
  double flops = 0;
  double bytes = 0;  ///< read and written, each tensor once
};

/// What every operator says about itself, apart from its kernels: the interface that each class in
/// core/ops fills. An operator is immutable and holds typed attributes.
class Operator {
 public:
  virtual ~Operator() = default;

  virtual OpKind kind() const = 0;
  /// "kernel=3 stride=1 padding=1"; part of the text dump and of the fingerprint, so it must hold
  /// every attribute that changes the result.
  virtual std::string attributes() const { return {}; }
  /// The types of the outputs. Throws ShapeError naming the operator and the shapes.
  virtual std::vector<TensorType> infer(std::span<const TensorType> inputs) const = 0;
  virtual Cost cost(std::span<const TensorType> inputs,
                    std::span<const TensorType> outputs) const = 0;

  /// Emits nodes that compute the gradients and returns one value per input, kNoValue for those
  /// without one. `output_grads` has one value per output, kNoValue where nothing depends on it.
  /// The default has no gradient for any input.
  virtual std::vector<ValueId> gradient(GradientBuilder& builder,
                                        const Node& node,
                                        std::span<const ValueId> output_grads) const;

  /// Input whose buffer output `output` may overwrite when no node reads that input later; -1:
  /// none. The kernel must then be correct with both pointers equal.
  virtual int in_place_input(int /*output*/) const { return -1; }
  /// The single output is the input under another shape: both share one buffer, no kernel runs.
  virtual bool is_view() const { return false; }
  /// Whether the kernel honours RunState::accumulate for this output (adds to what is there).
  /// Outputs that are sums over samples and end in the flat gradient space want this.
  virtual bool accumulates(int /*output*/) const { return false; }
  /// A loss: differentiation starts here, with an implied gradient of one for its output 0.
  virtual bool is_loss() const { return false; }
};

/// `op` as its concrete class; throws InternalError where the kind does not match.
template <typename T>
const T& op_cast(const Operator& op);

}  // namespace lockstep
