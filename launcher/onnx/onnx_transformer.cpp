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

std::string OperatorWriter::rms_norm(const Node& node) {
  const auto& op = op_cast<ops::RmsNorm>(*node.op);
  LOCKSTEP_ASSERT(!op.residual());
  if (rank(node.inputs[0]) == 4 || flattened_.contains(node.inputs[0]))
    refuse(node, "its input is an image");
  const std::string x = in(node, 0);
  const std::string mean =
      out_.add("ReduceMean", {out_.add("Mul", {x, x})}, {{"axes", std::vector<std::int64_t>{-1}}});
  const std::string root = out_.add("Sqrt", {out_.add("Add", {mean, out_.scalar(op.eps())})});
  return out_.add("Mul", {out_.add("Div", {x, root}), in(node, 1)});
}

std::string OperatorWriter::rotary(const Node& node) {
  const ops::RotaryAttrs& attrs = op_cast<ops::Rotary>(*node.op).attrs();
  return out_.concatenate({turned(in(node, 0), attrs.heads, node),
                           turned(in(node, 1), attrs.kv_heads, node),
                           in(node, 2)},
                          2);
}

std::string OperatorWriter::turned(const std::string& x, std::int64_t heads, const Node& rotary) {
  const ops::RotaryAttrs& attrs = op_cast<ops::Rotary>(*rotary.op).attrs();
  const TensorType& packed = graph_.value(rotary.outputs[0]).type;
  const std::int64_t depth = attrs.depth_of(packed);
  std::array<std::string, 2>& turns = turns_[rotary.op->attributes()];
  if (turns[0].empty()) {
    std::vector<float> cosines, sines;
    for (std::int64_t t = 0; t < packed.shape[1]; ++t)
      for (const std::uint64_t phase : ops::rotary_phases(attrs.positions, depth)) {
        const ops::Rotation rotation = ops::rotation_of(phase * std::uint64_t(t));
        cosines.push_back(rotation.cosine);
        sines.push_back(rotation.sine);
      }
    // As many positions as the samples have.
    const std::int64_t shape[] = {packed.shape[1], 1, depth / 2}, first = 0;
    const std::string begin = out_.row({&first, 1});
    const std::string length = out_.add("Shape", {x}, {{"start", 1}, {"end", 2}});
    turns = {out_.add("Slice", {out_.tensor(cosines, shape), begin, length, begin}),
             out_.add("Slice", {out_.tensor(sines, shape), begin, length, begin})};
  }
  const std::int64_t apart[] = {0, 0, heads, depth}, together[] = {0, 0, heads * depth};
  const std::vector<std::string> halves =
      out_.add_several("Split", {out_.add("Reshape", {x, out_.row(apart)})}, {{"axis", 3}}, 2);
  const auto product = [&](int half, int turn) {
    return out_.add("Mul", {halves[std::size_t(half)], turns[std::size_t(turn)]});
  };
  const std::string first = out_.add("Sub", {product(0, 0), product(1, 1)});
  const std::string second = out_.add("Add", {product(1, 0), product(0, 1)});
  return out_.add("Reshape", {out_.concatenate({first, second}, 3), out_.row(together)});
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
  const auto& op = op_cast<ops::Attention>(*node.op);
  const ops::AttentionAttrs& attrs = op.attrs();
  const TensorType& type = graph_.value(node.inputs[0]).type;  // [N, T, (heads + 2 kv_heads) D]
  const std::int64_t depth = attrs.depth_of(type), kv_heads = attrs.key_heads();
  const std::int64_t width = attrs.heads * depth, together[] = {0, 0, width};
  const std::string qkv = in(node, 0);
  if (attrs.group() > 1) {
    // [N, T, kv_heads, heads of a group, D], and keys and values as a group of one.
    const auto part = [&](std::int64_t first, std::int64_t heads) {
      const std::int64_t apart[] = {0, 0, kv_heads, heads / kv_heads, depth};
      const std::string columns = slice(qkv, first * depth, (first + heads) * depth, 2);
      return out_.add("Transpose",
                      {out_.add("Reshape", {columns, out_.row(apart)})},
                      {{"perm", std::vector<std::int64_t>{0, 2, 3, 1, 4}}});
    };
    const std::string sums = attend(
        {part(0, attrs.heads), part(attrs.heads, kv_heads), part(attrs.heads + kv_heads, kv_heads)},
        depth,
        attrs.causal,
        true,
        qkv);
    const std::vector<std::int64_t> by_position{0, 3, 1, 2, 4};
    return out_.add("Reshape",
                    {out_.add("Transpose", {sums}, {{"perm", by_position}}), out_.row(together)});
  }
  const std::int64_t apart[] = {0, 0, 3, attrs.heads, depth}, first = 0;
  const std::vector<std::int64_t> by_head{2, 0, 3, 1, 4}, by_position{0, 2, 1, 3};
  const std::string parts = out_.add("Transpose",
                                     {out_.add("Reshape", {qkv, out_.row(apart)})},
                                     {{"perm", by_head}});  // [3, N, heads, T, D]
  std::vector<std::string> split = out_.add_several("Split", {parts}, {{"axis", 0}}, 3);
  const std::string axis = out_.row({&first, 1});
  for (std::string& part : split) part = out_.add("Squeeze", {part, axis});
  const std::string sums = attend({split[0], split[1], split[2]}, depth, attrs.causal, false, qkv);
  return out_.add("Reshape",
                  {out_.add("Transpose", {sums}, {{"perm", by_position}}), out_.row(together)});
}

std::string OperatorWriter::attend(const std::array<std::string, 3>& parts,
                                   std::int64_t depth,
                                   bool causal,
                                   bool grouped,
                                   const std::string& qkv) {
  const std::vector<std::int64_t> swapped =
      grouped ? std::vector<std::int64_t>{0, 1, 2, 4, 3} : std::vector<std::int64_t>{0, 1, 3, 2};
  const std::string q =
      out_.add("Mul", {parts[0], out_.scalar(float(1 / std::sqrt(double(depth))))});
  std::string scores =
      out_.add("MatMul", {q, out_.add("Transpose", {parts[1]}, {{"perm", swapped}})});
  if (causal) {
    const std::string length = out_.add("Shape", {qkv}, {{"start", 1}, {"end", 2}});
    scores = out_.add("Add", {scores, causal_mask(length)});
  }
  return out_.add("MatMul", {out_.add("Softmax", {scores}, {{"axis", -1}}), parts[2]});
}

}  // namespace lockstep::onnx
