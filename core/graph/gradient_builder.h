// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/graph/graph.h"

namespace lockstep {

/// What an operator's gradient rule writes its nodes through.
class GradientBuilder {
 public:
  GradientBuilder(Graph& graph, const std::vector<bool>& needs_grad)
      : graph_(graph), needs_grad_(needs_grad) {}

  /// Whether `value` depends on anything trained; rules skip gradients without a use.
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

}  // namespace lockstep
