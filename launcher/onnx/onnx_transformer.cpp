// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numbers>

#include "core/base/check.h"
#include "core/ops/all_ops.h"
#include "launcher/onnx/onnx_operators.h"

namespace lockstep::onnx {

std::string OperatorWriter::embedding(const Node& node) {
  const auto& op = op_cast<ops::Embedding>(*node.op);
  const std::string tokens = in(node, 0);
  const std::string vectors = out_.add("Gather", {in(node, 1), tokens}, {{"axis", 0}});
  if (!op.positions()) return vectors;
  const std::int64_t first = 0;
  const std::string begin = out_.row({&first, 1});
  const std::string length = out_.add("Shape", {tokens}, {{"start", 1}, {"end", 2}});
  return out_.add("Add", {vectors, out_.add("Slice", {in(node, 2), begin, length, begin})});
}

std::string OperatorWriter::class_token(const Node& node) {
  const Shape& shape = graph_.value(node.outputs[0]).type.shape;  // [N, 1 + T, C]
  std::string x = in(node, 0);
  const std::string samples = out_.add("Shape", {x}, {{"start", 0}, {"end", 1}});
  if (rank(node.inputs[0]) == 4) {
    const std::int64_t flat[] = {0, shape[2], shape[1] - 1};
    x = out_.add("Transpose",
                 {out_.add("Reshape", {x, out_.row(flat)})},
                 {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  }
  const std::int64_t one[] = {1, shape[2]};
  const std::string token =
      out_.add("Expand", {in(node, 1), out_.concatenate({samples, out_.row(one)}, 0)});
  return out_.add("Add", {out_.concatenate({token, x}, 1), in(node, 2)});
}

std::string OperatorWriter::layer_norm(const Node& node) {
  const auto& op = op_cast<ops::LayerNorm>(*node.op);
  LOCKSTEP_ASSERT(!op.residual());
  if (flattened_.contains(node.inputs[0])) refuse(node, "its input is a flattened image");
  const std::vector<Attribute> attributes{{"axis", -1}, {"epsilon", op.eps()}};
  const auto apply = [&](const std::string& x) {
    return op.bias() ? out_.add("LayerNormalization", {x, in(node, 1), in(node, 2)}, attributes)
                     : out_.add("LayerNormalization", {x, in(node, 1)}, attributes);
  };
  return rank(node.inputs[0]) == 4 ? channels_last(in(node, 0), apply) : apply(in(node, 0));
}

std::string OperatorWriter::gelu(const Node& node) {
  const std::string x = in(node, 0);
  const auto times = [&](const std::string& a, float factor) {
    return out_.add("Mul", {a, out_.scalar(factor)});
  };
  std::string argument = x;
  const bool erf = op_cast<ops::Gelu>(*node.op).gelu() == ops::GeluKind::erf;
  if (erf) {
    argument = times(x, float(1 / std::numbers::sqrt2));
  } else {
    const std::string cube = out_.add("Mul", {out_.add("Mul", {x, x}), x});
    argument =
        times(out_.add("Add", {x, times(cube, 0.044715f)}), float(std::sqrt(2 / std::numbers::pi)));
  }
  const std::string step = out_.add(erf ? "Erf" : "Tanh", {argument});
  return out_.add("Mul", {times(x, 0.5f), out_.add("Add", {step, out_.scalar(1)})});
}

std::string OperatorWriter::causal_mask(const std::string& length) {
  if (!mask_.empty()) return mask_;
  const std::int64_t first = 0, second = 1;
  const std::string axis = out_.row({&first, 1});
  const std::string tokens = out_.add("Squeeze", {length, axis});
  const std::string places = out_.add("Range", {out_.whole(0), tokens, out_.whole(1)});
  const std::string rows = out_.add("Unsqueeze", {places, out_.row({&second, 1})});
  const std::string sees =
      out_.add("GreaterOrEqual", {rows, out_.add("Unsqueeze", {places, axis})});
  const float hidden = -std::numeric_limits<float>::infinity();
  return mask_ = out_.add("Where", {sees, out_.scalar(0), out_.scalar(hidden)});
}

std::string OperatorWriter::attention(const Node& node) {
  const ops::AttentionAttrs& attrs = op_cast<ops::Attention>(*node.op).attrs();
  const Shape& shape = graph_.value(node.inputs[0]).type.shape;  // [N, T, 3 C]
  const std::int64_t width = shape[2] / 3, columns = width / attrs.heads;
  const std::int64_t apart[] = {0, 0, 3, attrs.heads, columns}, together[] = {0, 0, width};
  const std::int64_t first = 0;
  const std::vector<std::int64_t> by_head{2, 0, 3, 1, 4}, swapped{0, 1, 3, 2},
      by_position{0, 2, 1, 3};

  const std::string parts = out_.add("Transpose",
                                     {out_.add("Reshape", {in(node, 0), out_.row(apart)})},
                                     {{"perm", by_head}});  // [3, N, heads, T, D]
  std::vector<std::string> qkv = out_.add_several("Split", {parts}, {{"axis", 0}}, 3);
  const std::string axis = out_.row({&first, 1});
  for (std::string& part : qkv) part = out_.add("Squeeze", {part, axis});

  const std::string q =
      out_.add("Mul", {qkv[0], out_.scalar(float(1 / std::sqrt(double(columns))))});
  std::string scores =
      out_.add("MatMul", {q, out_.add("Transpose", {qkv[1]}, {{"perm", swapped}})});
  if (attrs.causal) {
    const std::string length = out_.add("Shape", {in(node, 0)}, {{"start", 1}, {"end", 2}});
    scores = out_.add("Add", {scores, causal_mask(length)});
  }
  const std::string weights = out_.add("Softmax", {scores}, {{"axis", -1}});
  const std::string sums =
      out_.add("Transpose", {out_.add("MatMul", {weights, qkv[2]})}, {{"perm", by_position}});
  return out_.add("Reshape", {sums, out_.row(together)});
}

}  // namespace lockstep::onnx
