// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

namespace lockstep {

/// What an operator's gradient rule writes its nodes through.
class GradientBuilder {
 public:
  GradientBuilder(Graph& graph, const std::vector<bool>& needs_grad)
      : graph_(graph), needs_grad_(needs_grad) {}

  /// Whether anything trained lies behind `value`; rules skip the gradients that nobody needs.
  bool needs_grad(ValueId value) const { return needs_grad_[std::size_t(value)]; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }

  /// Appends a backward node with the path and call site of `forward`.
  std::vector<ValueId> emit(const Node& forward,
                            std::shared_ptr<const Operator> op,
                            std::vector<ValueId> inputs);

 private:
  Graph& graph_;
  const std::vector<bool>& needs_grad_;
};

/// Appends the backward pass of `loss`, which must be output 0 of an operator that is_loss(), and
/// has the gradient of every trained parameter that is not frozen accumulated into its flat slot;
/// what lies behind frozen parameters alone has no backward pass. Uses of one value are added in
/// the order in which they were declared. Throws ConfigError: a trained parameter does not
/// influence the loss.
void differentiate(Graph& graph, ValueId loss);

}  // namespace lockstep
