// SPDX-License-Identifier: Apache-2.0
#include "core/graph/rewrite.h"

#include "core/base/check.h"

namespace lockstep {

GraphRewriter::GraphRewriter(const Graph& source)
    : source_(source),
      result_(source.without_nodes()),
      map_(source.values().size(), kNoValue),
      skipped_(source.values().size(), false) {
  ValueId next = 0;  // inputs and parameters are the first values of the result, in their order
  for (std::size_t v = 0; v < source.values().size(); ++v)
    if (source.values()[v].role != ValueRole::activation) map_[v] = next++;
}

ValueId GraphRewriter::mapped(ValueId source) const {
  const ValueId result = map_[std::size_t(source)];
  LOCKSTEP_ASSERT(result != kNoValue);
  return result;
}

std::vector<ValueId> GraphRewriter::mapped(const std::vector<ValueId>& sources) const {
  std::vector<ValueId> results;
  for (ValueId source : sources) results.push_back(mapped(source));
  return results;
}

std::vector<ValueId> GraphRewriter::emit(const Node& like,
                                         std::shared_ptr<const Operator> op,
                                         std::vector<ValueId> inputs) {
  return result_.add_node(std::move(op), std::move(inputs), like.path, like.where, like.phase);
}

void GraphRewriter::replace(ValueId source, ValueId result) {
  map(source, result);
  if (const int parameter = source_.value(source).accumulates_into; parameter >= 0)
    result_.accumulate_into(result, parameter);
}

void GraphRewriter::copy(const Node& node, std::shared_ptr<const Operator> op) {
  const auto outputs = emit(node, std::move(op), mapped(node.inputs));
  LOCKSTEP_ASSERT(outputs.size() == node.outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) replace(node.outputs[i], outputs[i]);
}

Graph GraphRewriter::take() {
  for (const auto& [name, value] : source_.outputs()) result_.add_output(name, mapped(value));
  return std::move(result_);
}

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.values().size(), 0);
  for (const Node& node : graph.nodes())
    for (ValueId input : node.inputs) ++uses[std::size_t(input)];
  return uses;
}

}  // namespace lockstep
