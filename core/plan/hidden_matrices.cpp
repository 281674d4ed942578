// SPDX-License-Identifier: Apache-2.0
#include "core/plan/hidden_matrices.h"

#include <algorithm>

namespace lockstep {
namespace {

/// How the forward pass uses a parameter.
struct Uses {
  bool as_matrix = false, otherwise = false;
};

constexpr std::size_t kWeight = 1;

bool multiplies(const Node& node) {
  return node.op->kind() == OpKind::linear || node.op->kind() == OpKind::conv2d;
}

/// Whether each parameter is one of a head: of a layer that no other layer with a matrix follows.
/// That the order of independent nodes may change does not matter.
std::vector<bool> heads(const Graph& training) {
  std::vector<bool> head(training.parameters().size(), false);
  std::vector<bool> leads_on(training.values().size(), false);  // to a layer with a matrix
  const std::vector<Node>& nodes = training.nodes();
  for (std::size_t n = nodes.size(); n-- > 0;) {
    const Node& node = nodes[n];
    if (node.phase != NodePhase::forward) continue;
    const bool leads = std::ranges::any_of(
        node.outputs, [&](ValueId output) { return leads_on[std::size_t(output)]; });
    if (multiplies(node) && !leads)
      for (const ValueId input : node.inputs)
        if (const ValueInfo& value = training.value(input); value.role == ValueRole::parameter)
          head[std::size_t(value.index)] = true;
    if (!leads && !multiplies(node)) continue;
    for (const ValueId input : node.inputs) leads_on[std::size_t(input)] = true;
  }
  return head;
}

}  // namespace

std::vector<int> hidden_matrices(const Graph& training) {
  std::vector<Uses> uses(training.parameters().size());
  const std::vector<bool> head = heads(training);
  for (const Node& node : training.nodes()) {
    if (node.phase != NodePhase::forward) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueInfo& value = training.value(node.inputs[i]);
      if (value.role != ValueRole::parameter) continue;
      Uses& of = uses[std::size_t(value.index)];
      (multiplies(node) && i == kWeight ? of.as_matrix : of.otherwise) = true;
    }
  }
  std::vector<int> matrices;
  for (int i = 0; i < int(uses.size()); ++i) {
    const Parameter& parameter = training.parameters()[std::size_t(i)];
    const Uses& of = uses[std::size_t(i)];
    if (!head[std::size_t(i)] && of.as_matrix && !of.otherwise && parameter.shape.elems() > 0 &&
        parameter.kind == ParameterKind::trained && !parameter.frozen)
      matrices.push_back(i);
  }
  return matrices;
}

std::vector<int> head_parameters(const Graph& training) {
  const std::vector<bool> head = heads(training);
  std::vector<int> parameters;
  for (int i = 0; i < int(head.size()); ++i)
    if (head[std::size_t(i)]) parameters.push_back(i);
  return parameters;
}

Shape as_matrix(const Shape& parameter) {
  return {parameter[0], parameter.elems() / std::max<std::int64_t>(1, parameter[0])};
}

}  // namespace lockstep
