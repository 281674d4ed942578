// SPDX-License-Identifier: Apache-2.0
#include "core/plan/precision.h"

#include "core/graph/rewrite.h"
#include "core/ops/cast.h"
#include "core/ops/embedding/column_embedding.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/normalize.h"

namespace lockstep {
namespace {

/// The operator with bf16 output where it is one at which activations enter; null for others.
std::shared_ptr<const Operator> entering_as_bf16(const Operator& op) {
  if (op.kind() == OpKind::normalize) {
    const auto& normalize = op_cast<ops::Normalize>(op);
    return std::make_shared<ops::Normalize>(normalize.scale(), normalize.shift(), DType::bf16);
  }
  if (op.kind() == OpKind::embedding)
    return std::make_shared<ops::Embedding>(op_cast<ops::Embedding>(op).positions(), DType::bf16);
  if (op.kind() == OpKind::column_embedding)
    return std::make_shared<ops::ColumnEmbedding>(op_cast<ops::ColumnEmbedding>(op).features(),
                                                  DType::bf16);
  return nullptr;
}

class Bf16Pass {
 public:
  Bf16Pass(const Graph& graph, std::string_view input) : graph_(graph), rewriter_(graph) {
    for (std::size_t i = 0; i < graph.input_names().size(); ++i)
      if (graph.input_names()[i] == input) input_ = graph.input_value(int(i));
  }

  void run() {
    for (const Node& node : graph_.nodes()) visit(node);
  }
  ValueId mapped(ValueId value) const { return rewriter_.mapped(value); }
  Graph take() { return rewriter_.take(); }

 private:
  void visit(const Node& node) {
    if (auto entering = entering_as_bf16(*node.op)) {
      copy_at_entrance(node, std::move(entering));
      return;
    }
    for (ValueId value : node.inputs)
      if (value == input_ && cast_ == kNoValue && graph_.value(value).type.dtype == DType::f32)
        cast_input(node);
    // Against a target that is fp32, the prediction is fp32 too. Soft labels are weights of
    // classes.
    if (node.op->is_loss() && node.op->kind() != OpKind::softmax_cross_entropy &&
        graph_.value(node.inputs[1]).type.dtype == DType::f32)
      cast_back(node, node.inputs[0]);
    rewriter_.copy(node);
  }

  /// `node` reads the input as it came, whether or not others read its cast already: bf16 does not
  /// hold the indices that column_embedding looks up.
  void copy_at_entrance(const Node& node, std::shared_ptr<const Operator> entering) {
    if (cast_ != kNoValue) rewriter_.map(input_, uncast_);
    rewriter_.copy(node, std::move(entering));
    if (cast_ != kNoValue) rewriter_.map(input_, cast_);
  }

  void cast_input(const Node& first_use) {
    uncast_ = rewriter_.mapped(input_);
    cast_ = rewriter_.emit(first_use, std::make_shared<ops::Cast>(DType::bf16), {uncast_})[0];
    rewriter_.map(input_, cast_);
  }

  void cast_back(const Node& node, ValueId value) {
    if (rewriter_.type(value) == DType::f32) return;
    rewriter_.map(value,
                  rewriter_.emit(
                      node, std::make_shared<ops::Cast>(DType::f32), {rewriter_.mapped(value)})[0]);
  }

  const Graph& graph_;
  GraphRewriter rewriter_;
  ValueId input_ = kNoValue;
  ValueId cast_ = kNoValue, uncast_ = kNoValue;  // of the result, once something reads the cast
};

/// Whether `node` reads its input `index` as a weight that its kernel rounds to bf16.
bool rounds(const Graph& graph, const Node& node, std::size_t index) {
  constexpr std::size_t kWeightInput = 1;
  switch (node.op->kind()) {
    case OpKind::linear:
    case OpKind::linear_bwd_data:
    case OpKind::conv2d:
    case OpKind::conv2d_bwd_data:
      return index == kWeightInput && graph.value(node.inputs[0]).type.dtype == DType::bf16;
    default:
      return false;
  }
}

}  // namespace

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp32:
      break;
  }
  return "fp32";
}

ValueId lower_to_bf16(Graph& graph, ValueId loss, std::string_view input) {
  Bf16Pass pass(graph, input);
  pass.run();
  const ValueId result = pass.mapped(loss);
  graph = pass.take();
  return result;
}

std::vector<bool> bf16_weights(const Graph& graph) {
  std::vector<bool> rounded(graph.parameters().size(), false);
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    rounded[i] = parameter.kind == ParameterKind::trained && !parameter.frozen;
  }
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueInfo& value = graph.value(node.inputs[i]);
      if (value.role == ValueRole::parameter && !rounds(graph, node, i))
        rounded[std::size_t(value.index)] = false;
    }
  return rounded;
}

}  // namespace lockstep
