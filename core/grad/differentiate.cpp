// SPDX-License-Identifier: Apache-2.0
#include "core/grad/differentiate.h"

#include "core/base/check.h"
#include "core/graph/gradient_builder.h"
#include "core/ops/add.h"

namespace lockstep {

namespace {

bool wants_gradient(const Parameter& parameter) {
  return parameter.kind == ParameterKind::trained && !parameter.frozen;
}

/// Values through which the loss depends on something trained.
std::vector<bool> find_needs_grad(const Graph& graph) {
  std::vector<bool> needs(graph.values().size(), false);
  for (std::size_t i = 0; i < graph.parameters().size(); ++i)
    if (wants_gradient(graph.parameters()[i]))
      needs[std::size_t(graph.parameter_value(int(i)))] = true;
  for (const Node& node : graph.nodes())
    for (ValueId input : node.inputs)
      if (needs[std::size_t(input)])
        for (ValueId output : node.outputs) needs[std::size_t(output)] = true;
  return needs;
}

class BackwardPass {
 public:
  BackwardPass(Graph& graph, ValueId loss)
      : graph_(graph),
        loss_(loss),
        needs_grad_(find_needs_grad(graph)),
        grads_(graph.values().size()),
        builder_(graph, needs_grad_) {}

  void run() {
    const NodeId last = graph_.value(loss_).producer;
    LOCKSTEP_ASSERT(last >= 0 && graph_.nodes()[std::size_t(last)].op->is_loss());
    for (NodeId id = last; id >= 0; --id) visit(id, id == last);
    accumulate_parameters();
  }

 private:
  void visit(NodeId id, bool is_root) {
    const Node node = graph_.nodes()[std::size_t(id)];  // a copy: rules append to the vector
    std::vector<ValueId> output_grads;
    bool reached = is_root;
    for (ValueId output : node.outputs) {
      output_grads.push_back(sum_of_uses(node, grads_[std::size_t(output)]));
      reached = reached || output_grads.back() != kNoValue;
    }
    bool wanted = false;
    for (ValueId input : node.inputs) wanted = wanted || needs_grad_[std::size_t(input)];
    if (!reached || !wanted) return;
    const std::vector<ValueId> input_grads = node.op->gradient(builder_, node, output_grads);
    LOCKSTEP_ASSERT(input_grads.size() == node.inputs.size());
    for (std::size_t i = 0; i < input_grads.size(); ++i)
      if (input_grads[i] != kNoValue && needs_grad_[std::size_t(node.inputs[i])])
        grads_[std::size_t(node.inputs[i])].push_back(input_grads[i]);
  }

  /// Backward meets the last use first, so the list is walked from its end: declaration order.
  ValueId sum_of_uses(const Node& node, const std::vector<ValueId>& uses) {
    if (uses.empty()) return kNoValue;
    ValueId sum = uses.back();
    for (std::size_t i = uses.size() - 1; i-- > 0;)
      sum = builder_.emit(node, std::make_shared<ops::Add>(), {sum, uses[i]})[0];
    return sum;
  }

  void accumulate_parameters() {
    for (std::size_t i = 0; i < graph_.parameters().size(); ++i) {
      const Parameter& parameter = graph_.parameters()[i];
      if (!wants_gradient(parameter)) continue;
      const ValueId value = graph_.parameter_value(int(i));
      const auto& uses = grads_[std::size_t(value)];
      LOCKSTEP_CHECK(!uses.empty(),
                     ConfigError,
                     "model: parameter '{}' does not influence the loss",
                     parameter.name);
      const NodeId producer = graph_.value(uses.front()).producer;
      const Node last_use = graph_.nodes()[std::size_t(producer)];
      graph_.accumulate_into(sum_of_uses(last_use, uses), int(i));
    }
  }

  Graph& graph_;
  ValueId loss_;
  std::vector<bool> needs_grad_;
  std::vector<std::vector<ValueId>> grads_;  // per forward value, in order of backward
  GradientBuilder builder_;
};

}  // namespace

void differentiate(Graph& graph, ValueId loss) { BackwardPass(graph, loss).run(); }

}  // namespace lockstep
