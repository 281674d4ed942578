// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "core/graph/graph.h"

namespace lockstep {
namespace {

void expect(bool condition, const Graph& graph, std::size_t node, const char* what) {
  if (condition) return;
  const Node& n = graph.nodes()[node];
  throw InternalError(
      fmt::format("graph: node {} ({} '{}'): {}", node, name_of(n.op->kind()), n.path, what));
}

void verify_node(const Graph& graph, std::size_t index) {
  const Node& node = graph.nodes()[index];
  for (ValueId id : node.inputs) {
    expect(id >= 0 && id < ValueId(graph.values().size()), graph, index, "unknown input value");
    const ValueInfo& info = graph.value(id);
    expect(info.role != ValueRole::activation || info.producer < NodeId(index),
           graph,
           index,
           "an input is used before it is produced");
    expect(info.accumulates_into < 0, graph, index, "reads a value that is only accumulated");
  }
  const auto types = node.op->infer(graph.types_of(node.inputs));
  expect(types.size() == node.outputs.size(), graph, index, "number of outputs");
  for (std::size_t i = 0; i < types.size(); ++i) {
    const ValueInfo& info = graph.value(node.outputs[i]);
    expect(info.type == types[i], graph, index, "output type differs from the operator's rule");
    expect(info.producer == NodeId(index) && info.index == int(i), graph, index, "output owner");
    expect(info.accumulates_into < 0 || node.op->accumulates(int(i)),
           graph,
           index,
           "accumulates an output that its kernel overwrites");
  }
  if (node.op->is_view())
    expect(node.inputs.size() == 1 && types.size() == 1 &&
               types[0].bytes() == graph.value(node.inputs[0]).type.bytes(),
           graph,
           index,
           "a view must have one input and one output of equal size");
}

}  // namespace

void verify(const Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) verify_node(graph, i);
  std::vector<int> writers(graph.parameters().size(), 0);
  for (const ValueInfo& info : graph.values())
    if (info.accumulates_into >= 0)
      LOCKSTEP_CHECK(++writers[std::size_t(info.accumulates_into)] == 1,
                     InternalError,
                     "graph: two values accumulate into '{}'",
                     graph.parameters()[std::size_t(info.accumulates_into)].name);
}

}  // namespace lockstep
