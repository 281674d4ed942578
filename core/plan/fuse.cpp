// SPDX-License-Identifier: Apache-2.0
#include "core/plan/fuse.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "core/base/check.h"
#include "core/graph/rewrite.h"
#include "core/ops/activations/gelu.h"
#include "core/ops/activations/relu.h"
#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "core/ops/norms/batch_norm.h"
#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"

namespace lockstep {
namespace {

/// What every pass looks things up in.
class Pattern {
 public:
  /// Outputs of the graph count as read.
  explicit Pattern(const Graph& graph) : uses_(count_uses(graph)), reader_(graph.values().size()) {
    for (const Node& node : graph.nodes())
      for (ValueId input : node.inputs) reader_[std::size_t(input)] = &node;
    for (const auto& [name, value] : graph.outputs()) ++uses_[std::size_t(value)];
  }
  /// `result`, which the pass has to return, counts as read.
  Pattern(const Graph& graph, ValueId result) : Pattern(graph) { ++uses_[std::size_t(result)]; }

  /// The node that alone reads `value`, if it is of one of `kinds`; null otherwise.
  const Node* only_reader(ValueId value, std::initializer_list<OpKind> kinds) const {
    const Node* const reader =
        uses_[std::size_t(value)] == 1 ? reader_[std::size_t(value)] : nullptr;
    return reader && std::ranges::count(kinds, reader->op->kind()) > 0 ? reader : nullptr;
  }

 private:
  std::vector<int> uses_;
  std::vector<const Node*> reader_;
};

/// Whether a pass that looks for nodes of these kinds would give back the graph as it is. One whose
/// inputs and parameters are not all in front has them there afterwards, whatever the pass finds.
bool is_left_alone(const Graph& graph, std::initializer_list<OpKind> kinds) {
  const auto is_activation = [](const ValueInfo& info) {
    return info.role == ValueRole::activation;
  };
  return std::ranges::is_partitioned(graph.values(), std::not_fn(is_activation)) &&
         std::ranges::none_of(graph.nodes(), [&](const Node& node) {
           return std::ranges::count(kinds, node.op->kind()) > 0;
         });
}

void note(GraphRewriter& rewriter, const Node& into, const Node& taken) {
  rewriter.add_note(fmt::format("{} '{}' fused with {} '{}'",
                                name_of(into.op->kind()),
                                into.path,
                                name_of(taken.op->kind()),
                                taken.path));
}

ValueId finish(GraphRewriter& rewriter, Graph& graph, ValueId loss) {
  const ValueId result = rewriter.mapped(loss);
  Graph fused = rewriter.take();
  graph = std::move(fused);
  return result;
}

ops::Activation activation_of(ops::GeluKind gelu) {
  return gelu == ops::GeluKind::erf ? ops::Activation::gelu_erf : ops::Activation::gelu_tanh;
}

float limit_of(const Operator& relu) { return op_cast<ops::Relu>(relu).limit(); }

/// None for a ReLU with a limit, which no product applies.
ops::Activation activation_of(const Operator& op) {
  if (op.kind() == OpKind::relu)
    return limit_of(op) == ops::kNoLimit ? ops::Activation::relu : ops::Activation::none;
  return activation_of(op_cast<ops::Gelu>(op).gelu());
}

/// linear or conv2d with that activation; null where there is no such operator.
std::shared_ptr<const Operator> with_activation(const Operator& op,
                                                ops::Activation activation,
                                                bool training) {
  if (activation == ops::Activation::none) return nullptr;
  if (op.kind() == OpKind::linear)
    return std::make_shared<ops::Linear>(op_cast<ops::Linear>(op).bias(), activation, training);
  if (op.kind() != OpKind::conv2d || activation != ops::Activation::relu) return nullptr;
  ops::Conv2dAttrs attrs = op_cast<ops::Conv2d>(op).attrs();
  attrs.relu = true;
  return std::make_shared<ops::Conv2d>(attrs);
}

}  // namespace

ValueId fuse_activation(Graph& graph, ValueId loss, bool training) {
  if (is_left_alone(graph, {OpKind::relu, OpKind::gelu})) return loss;
  GraphRewriter rewriter(graph);
  const Pattern pattern(graph, loss);
  for (const Node& node : graph.nodes()) {
    if (rewriter.has(node.outputs[0])) continue;  // fused into an earlier node
    const bool product = node.op->kind() == OpKind::linear || node.op->kind() == OpKind::conv2d;
    const Node* const next =
        product ? pattern.only_reader(node.outputs[0], {OpKind::relu, OpKind::gelu}) : nullptr;
    auto fused = next ? with_activation(*node.op, activation_of(*next->op), training) : nullptr;
    if (!fused) {
      rewriter.copy(node);
      continue;
    }
    const auto outputs = rewriter.emit(node, std::move(fused), rewriter.mapped(node.inputs));
    rewriter.replace(next->outputs[0], outputs[0]);
    note(rewriter, node, *next);
  }
  return finish(rewriter, graph, loss);
}

namespace {

/// layer_norm or rms_norm of a sum; null for other operators.
std::shared_ptr<const Operator> with_residual(const Operator& op) {
  if (op.kind() == OpKind::layer_norm) {
    const auto& norm = op_cast<ops::LayerNorm>(op);
    LOCKSTEP_ASSERT(!norm.residual());
    return std::make_shared<ops::LayerNorm>(norm.eps(), norm.bias(), true);
  }
  if (op.kind() != OpKind::rms_norm) return nullptr;
  const auto& norm = op_cast<ops::RmsNorm>(op);
  LOCKSTEP_ASSERT(!norm.residual());
  return std::make_shared<ops::RmsNorm>(norm.eps(), true);
}

}  // namespace

ValueId fuse_residual_norm(Graph& graph, ValueId loss) {
  if (is_left_alone(graph, {OpKind::layer_norm, OpKind::rms_norm})) return loss;
  GraphRewriter rewriter(graph);
  const Pattern pattern(graph, loss);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    // The norm comes right after the sum, so that every other reader of the sum comes later.
    const Node* next = i + 1 < graph.nodes().size() ? &graph.nodes()[i + 1] : nullptr;
    if (rewriter.has(node.outputs[0])) continue;
    auto norm =
        node.op->kind() == OpKind::add && next != nullptr && next->inputs[0] == node.outputs[0]
            ? with_residual(*next->op)
            : nullptr;
    if (!norm) {
      rewriter.copy(node);
      continue;
    }
    std::vector<ValueId> inputs{rewriter.mapped(node.inputs[0])};
    for (std::size_t p = 1; p < next->inputs.size(); ++p)
      inputs.push_back(rewriter.mapped(next->inputs[p]));
    inputs.push_back(rewriter.mapped(node.inputs[1]));
    const auto outputs = rewriter.emit(*next, std::move(norm), std::move(inputs));
    rewriter.replace(next->outputs[0], outputs[0]);
    rewriter.replace(next->outputs[1], outputs[1]);
    rewriter.replace(node.outputs[0], outputs[2]);
    note(rewriter, *next, node);
  }
  return finish(rewriter, graph, loss);
}

namespace {

/// Batch norm, in training or evaluation, with ReLU and perhaps a residual.
std::shared_ptr<const Operator> with_relu(const Operator& op, bool residual, float limit) {
  if (op.kind() == OpKind::batch_norm_inference)
    return std::make_shared<ops::BatchNormInference>(
        op_cast<ops::BatchNormInference>(op).eps(), true, residual, limit);
  const auto& norm = op_cast<ops::BatchNormNormalize>(op);
  return std::make_shared<ops::BatchNormNormalize>(
      norm.group_size(), norm.eps(), true, residual, limit);
}

/// The operators after a batch norm that can be fused into it.
struct Tail {
  const Node* add = nullptr;  ///< may be null
  const Node* relu = nullptr;
  ValueId residual = kNoValue;
};

std::optional<Tail> tail_of(const Pattern& pattern, const Node& norm) {
  Tail tail;
  ValueId value = norm.outputs[0];
  tail.add = pattern.only_reader(value, {OpKind::add});
  if (tail.add) {
    tail.residual = tail.add->inputs[tail.add->inputs[0] == value ? 1 : 0];
    value = tail.add->outputs[0];
  }
  tail.relu = pattern.only_reader(value, {OpKind::relu});
  if (!tail.relu || (tail.add && limit_of(*tail.relu->op) != ops::kNoLimit)) return std::nullopt;
  return tail;
}

}  // namespace

ValueId fuse_batch_norm_relu(Graph& graph, ValueId loss) {
  if (is_left_alone(graph, {OpKind::batch_norm_normalize, OpKind::batch_norm_inference}))
    return loss;
  GraphRewriter rewriter(graph);
  const Pattern pattern(graph, loss);
  for (const Node& node : graph.nodes()) {
    if (rewriter.has(node.outputs[0])) continue;
    const bool norm = node.op->kind() == OpKind::batch_norm_normalize ||
                      node.op->kind() == OpKind::batch_norm_inference;
    const auto tail = norm ? tail_of(pattern, node) : std::nullopt;
    // The residual must have been computed by now; else the other branch's norm takes the sum in.
    if (!tail || (tail->add && !rewriter.has(tail->residual))) {
      rewriter.copy(node);
      continue;
    }
    std::vector<ValueId> inputs = rewriter.mapped(node.inputs);
    if (tail->add) inputs.push_back(rewriter.mapped(tail->residual));
    const auto outputs =
        rewriter.emit(node,
                      with_relu(*node.op, tail->add != nullptr, limit_of(*tail->relu->op)),
                      std::move(inputs));
    for (std::size_t i = 1; i < outputs.size(); ++i) rewriter.replace(node.outputs[i], outputs[i]);
    rewriter.replace(tail->relu->outputs[0], outputs[0]);
    if (tail->add) {
      rewriter.skip(*tail->add);
      note(rewriter, node, *tail->add);
    }
    note(rewriter, node, *tail->relu);
  }
  return finish(rewriter, graph, loss);
}

ValueId fuse(Graph& graph, ValueId loss, bool training, bool recompute) {
  loss = fuse_batch_norm_relu(graph, loss);
  if (recompute) return loss;
  loss = fuse_activation(graph, loss, training);
  return fuse_residual_norm(graph, loss);
}

ValueId fuse_gradient_sum(Graph& graph, ValueId loss) {
  if (is_left_alone(graph, {OpKind::batch_norm_residual_bwd_sums})) return loss;
  GraphRewriter rewriter(graph);
  const Pattern pattern(graph, loss);
  const auto reader_of_sum = [&](const Node& node) -> const Node* {
    if (node.op->kind() != OpKind::add || node.phase != NodePhase::backward ||
        graph.value(node.outputs[0]).accumulates_into >= 0)
      return nullptr;
    const Node* const reader =
        pattern.only_reader(node.outputs[0], {OpKind::batch_norm_residual_bwd_sums});
    return reader && reader->inputs[1] == node.outputs[0] ? reader : nullptr;
  };
  std::map<const Node*, const Node*> sum_read_by;
  for (const Node& node : graph.nodes()) {
    if (const Node* const reader = reader_of_sum(node)) {
      sum_read_by[reader] = &node;
      rewriter.skip(node);
      continue;
    }
    const auto found = sum_read_by.find(&node);
    if (found == sum_read_by.end()) {
      rewriter.copy(node);
      continue;
    }
    const Node& sum = *found->second;
    std::vector<ValueId> inputs = node.inputs;
    inputs[1] = sum.inputs[0];
    inputs.push_back(sum.inputs[1]);
    const auto& bwd = op_cast<ops::BatchNormResidualBwdSums>(*node.op);
    const auto outputs =
        rewriter.emit(node,
                      std::make_shared<ops::BatchNormResidualBwdSums>(bwd.group_size(), true),
                      rewriter.mapped(inputs));
    for (std::size_t k = 0; k < outputs.size(); ++k) rewriter.replace(node.outputs[k], outputs[k]);
    note(rewriter, node, sum);
  }
  return finish(rewriter, graph, loss);
}

void fuse_gelu_gradient(Graph& graph) {
  if (is_left_alone(graph, {OpKind::gelu_bwd})) return;
  GraphRewriter rewriter(graph);
  const Pattern pattern(graph);
  for (const Node& node : graph.nodes()) {
    if (rewriter.has(node.outputs[0])) continue;
    const bool product = node.op->kind() == OpKind::linear_bwd_data;
    const Node* const next =
        product ? pattern.only_reader(node.outputs[0], {OpKind::gelu_bwd}) : nullptr;
    // What the product makes must be the gradient, not GELU's input.
    if (!next || next->inputs[0] != node.outputs[0]) {
      rewriter.copy(node);
      continue;
    }
    LOCKSTEP_ASSERT(op_cast<ops::LinearBwdData>(*node.op).before() == ops::Activation::none);
    std::vector<ValueId> inputs = rewriter.mapped(node.inputs);
    inputs.push_back(rewriter.mapped(next->inputs[1]));
    const auto gelu = activation_of(op_cast<ops::GeluBwd>(*next->op).gelu());
    const auto outputs =
        rewriter.emit(node, std::make_shared<ops::LinearBwdData>(gelu), std::move(inputs));
    rewriter.replace(next->outputs[0], outputs[0]);
    note(rewriter, node, *next);
  }
  graph = rewriter.take();
}

}  // namespace lockstep
