// SPDX-License-Identifier: Apache-2.0
#include "core/plan/hidden_matrices.h"

#include <algorithm>

namespace lockstep {
namespace {

/// How the forward pass uses a parameter.
struct Uses {
  bool as_matrix = false, otherwise = false;
};

bool multiplies(const Node& node) {
  return node.op->kind() == OpKind::linear || node.op->kind() == OpKind::conv2d;
}

}  // namespace

std::vector<int> hidden_matrices(const Graph& training) {
  constexpr std::size_t kWeight = 1;
  std::vector<Uses> uses(training.parameters().size());
  int head = -1;
  for (const Node& node : training.nodes()) {
    if (node.phase != NodePhase::forward) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueInfo& value = training.value(node.inputs[i]);
      if (value.role != ValueRole::parameter) continue;
      Uses& of = uses[std::size_t(value.index)];
      if (multiplies(node) && i == kWeight) {
        of.as_matrix = true;
        head = value.index;
      } else {
        of.otherwise = true;
      }
    }
  }
  std::vector<int> matrices;
  for (int i = 0; i < int(uses.size()); ++i) {
    const Parameter& parameter = training.parameters()[std::size_t(i)];
    const Uses& of = uses[std::size_t(i)];
    if (i != head && of.as_matrix && !of.otherwise && parameter.shape.elems() > 0 &&
        parameter.kind == ParameterKind::trained && !parameter.frozen)
      matrices.push_back(i);
  }
  return matrices;
}

Shape as_matrix(const Shape& parameter) {
  return {parameter[0], parameter.elems() / std::max<std::int64_t>(1, parameter[0])};
}

}  // namespace lockstep
