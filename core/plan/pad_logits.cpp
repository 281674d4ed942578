// SPDX-License-Identifier: Apache-2.0
#include "core/plan/pad_logits.h"

#include <algorithm>
#include <vector>

#include "core/graph/rewrite.h"
#include "core/ops/linear.h"
#include "core/ops/losses/softmax_cross_entropy.h"

namespace lockstep {
namespace {

constexpr std::int64_t kAligned = 8;  ///< bf16 numbers in 16 bytes
constexpr std::int64_t kManyClasses = 1024;

/// Whether `node` makes logits whose rows can be padded and need it.
bool is_head(const Graph& graph, const Node& node) {
  if (node.op->kind() != OpKind::linear) return false;
  const auto& linear = op_cast<ops::Linear>(*node.op);
  const TensorType& y = graph.value(node.outputs[0]).type;
  const std::int64_t classes = y.shape[-1];
  return !linear.bias() && linear.activation() == ops::Activation::none && y.dtype == DType::bf16 &&
         classes % kAligned != 0;
}

std::int64_t padded_classes(std::int64_t classes, std::int64_t multiple) {
  if (classes < kManyClasses) multiple = std::min(multiple, kAligned);
  return (classes + multiple - 1) / multiple * multiple;
}

/// Of each value, whether it is logits to pad: only the loss reads them, and they are not output.
std::vector<bool> find_logits(const Graph& graph) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<bool> found(graph.values().size(), false);
  for (const Node& node : graph.nodes()) {
    if (node.op->kind() != OpKind::softmax_cross_entropy) continue;
    const ValueId logits = node.inputs[0];
    const NodeId producer = graph.value(logits).producer;
    if (producer >= 0 && uses[std::size_t(logits)] == 1)
      found[std::size_t(logits)] = is_head(graph, graph.nodes()[std::size_t(producer)]);
  }
  for (const auto& [name, output] : graph.outputs()) found[std::size_t(output)] = false;
  return found;
}

}  // namespace

ValueId pad_logits(Graph& graph, ValueId loss, std::int64_t multiple) {
  if (multiple == 1) return loss;
  const std::vector<bool> is_logits = find_logits(graph);
  GraphRewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (is_logits[std::size_t(node.outputs[0])]) {
      const std::int64_t classes = graph.value(node.outputs[0]).type.shape[-1];
      const std::int64_t padded = padded_classes(classes, multiple);
      rewriter.copy(node,
                    std::make_shared<ops::Linear>(false, ops::Activation::none, false, padded));
      rewriter.add_note(
          fmt::format("linear '{}' pads {} classes to {}", node.path, classes, padded));
    } else if (node.op->kind() == OpKind::softmax_cross_entropy &&
               is_logits[std::size_t(node.inputs[0])]) {
      const auto& op = op_cast<ops::SoftmaxCrossEntropy>(*node.op);
      const std::int64_t classes = graph.value(node.inputs[0]).type.shape[-1];
      rewriter.copy(node,
                    std::make_shared<ops::SoftmaxCrossEntropy>(op.label_smoothing(),
                                                               op.with_gradient(),
                                                               op.ignore_index(),
                                                               classes,
                                                               op.class_weights()));
    } else {
      rewriter.copy(node);
    }
  }
  const ValueId result = rewriter.mapped(loss);
  Graph changed = rewriter.take();
  graph = std::move(changed);
  return result;
}

}  // namespace lockstep
