// SPDX-License-Identifier: Apache-2.0
#include "launcher/onnx/onnx_operators.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/check.h"
#include "core/ops/all_ops.h"

namespace lockstep::onnx {
namespace {

template <typename T>
const T& attributes_of(const Node& node) {
  return op_cast<T>(*node.op);
}

/// Whether a linear layer's weights are [in, out] in files, as GPT-2's.
bool is_transposed(const Parameter& weight) {
  return weight.file_layout.permutation == std::vector<int>{1, 0};
}

}  // namespace

void OperatorWriter::refuse(const Node& node, const char* reason) {
  throw ConfigError(fmt::format("export: ONNX has no counterpart of layer {} ({}): {}",
                                node.path,
                                lockstep::name_of(node.op->kind()),
                                reason),
                    "export it as safetensors or as a state dict");
}

void OperatorWriter::add(const Node& node) {
  out_.set_path(node.path);
  names_[node.outputs[0]] = translate(node);
  // A linear layer's weights have PyTorch's order in files.
  const OpKind kind = node.op->kind();
  const bool flattens = kind == OpKind::reshape && rank(node.inputs[0]) == 4;
  const bool keeps = kind != OpKind::linear && std::ranges::any_of(node.inputs, [&](ValueId v) {
                       return flattened_.contains(v);
                     });
  if (flattens || keeps) flattened_.insert(node.outputs[0]);
}

std::string OperatorWriter::translate(const Node& node) {
  switch (node.op->kind()) {
    case OpKind::normalize:
      return normalize(node);
    case OpKind::linear:
      return linear(node);
    case OpKind::conv2d:
      return conv2d(node);
    case OpKind::batch_norm_inference:
      return batch_norm(node);
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      return pool(node);
    case OpKind::global_avg_pool:
      return out_.add("Flatten", {out_.add("GlobalAveragePool", {in(node, 0)})}, {{"axis", 1}});
    case OpKind::reshape:
      return reshape(node);
    case OpKind::column_embedding:
      return column_embedding(node);
    case OpKind::embedding:
      return embedding(node);
    case OpKind::class_token:
      return class_token(node);
    case OpKind::narrow: {
      const auto& op = attributes_of<ops::Narrow>(node);
      return slice(in(node, 0), op.start(), op.start() + op.length(), 1);
    }
    case OpKind::layer_norm:
      return layer_norm(node);
    case OpKind::rms_norm:
      return rms_norm(node);
    case OpKind::gelu:
      return gelu(node);
    case OpKind::swiglu: {
      const std::string gate = in(node, 0);
      const std::string silu = out_.add("Mul", {gate, out_.add("Sigmoid", {gate})});
      return out_.add("Mul", {silu, in(node, 1)});
    }
    case OpKind::rotary:
      return rotary(node);
    case OpKind::attention:
      return attention(node);
    case OpKind::relu:
      return relu(node);
    case OpKind::add:
      return out_.add("Add", {in(node, 0), in(node, 1)});
    case OpKind::channel_scale: {
      if (rank(node.inputs[0]) != 4) refuse(node, "its input is not an image");
      return out_.add("Mul", {in(node, 0), in(node, 1)});
    }
    case OpKind::scale: {
      const float factor = attributes_of<ops::Scale>(node).factor();
      return out_.add("Mul", {in(node, 0), out_.scalar(factor)});
    }
    default:
      refuse(node, "no rule is written for it");
  }
}

std::string OperatorWriter::normalize(const Node& node) {
  const auto& op = attributes_of<ops::Normalize>(node);
  const auto constant = [&](const std::vector<float>& values) {
    if (values.size() == 1) return out_.scalar(values[0]);
    std::vector<std::int64_t> shape{std::ssize(values)};
    if (rank(node.inputs[0]) == 4) shape.insert(shape.end(), {1, 1});
    return out_.tensor(values, shape);
  };
  const std::string x = out_.add("Cast", {in(node, 0)}, {{"to", int(Element::f32)}});
  return out_.add("Add", {out_.add("Mul", {x, constant(op.scale())}), constant(op.shift())});
}

std::string OperatorWriter::linear(const Node& node) {
  const auto& op = attributes_of<ops::Linear>(node);
  LOCKSTEP_ASSERT(op.activation() == ops::Activation::none && op.padded_out() == 0);
  const bool transposed = is_transposed(parameter(node.inputs[1]));
  if (rank(node.inputs[0]) == 2)
    return out_.add("Gemm",
                    {in(node, 0), in(node, 1), op.bias() ? in(node, 2) : std::string()},
                    {{"transB", transposed ? 0 : 1}});
  const std::string weight =
      transposed
          ? in(node, 1)
          : out_.add("Transpose", {in(node, 1)}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  const auto apply = [&](const std::string& x) {
    const std::string product = out_.add("MatMul", {x, weight});
    return op.bias() ? out_.add("Add", {product, in(node, 2)}) : product;
  };
  return rank(node.inputs[0]) == 4 ? channels_last(in(node, 0), apply) : apply(in(node, 0));
}

std::string OperatorWriter::channels_last(
    const std::string& image, const std::function<std::string(const std::string&)>& apply) {
  const std::vector<std::int64_t> last{0, 2, 3, 1}, first{0, 3, 1, 2};
  return out_.add(
      "Transpose", {apply(out_.add("Transpose", {image}, {{"perm", last}}))}, {{"perm", first}});
}

std::string OperatorWriter::conv2d(const Node& node) {
  const ops::Conv2dAttrs& a = attributes_of<ops::Conv2d>(node).attrs();
  LOCKSTEP_ASSERT(!a.relu);
  return out_.add("Conv",
                  {in(node, 0), in(node, 1), a.bias ? in(node, 2) : std::string()},
                  {{"group", a.groups},
                   {"strides", {a.stride_h, a.stride_w}},
                   {"pads", {a.padding_h, a.padding_w, a.padding_h, a.padding_w}}});
}

std::string OperatorWriter::batch_norm(const Node& node) {
  const auto& op = attributes_of<ops::BatchNormInference>(node);
  LOCKSTEP_ASSERT(!op.relu() && !op.residual());
  if (flattened_.contains(node.inputs[0])) refuse(node, "its input is a flattened image");
  return out_.add("BatchNormalization",
                  {in(node, 0), in(node, 1), in(node, 2), in(node, 3), in(node, 4)},
                  {{"epsilon", op.eps()}});
}

std::string OperatorWriter::relu(const Node& node) {
  const float limit = attributes_of<ops::Relu>(node).limit();
  if (limit == ops::kNoLimit) return out_.add("Relu", {in(node, 0)});
  return out_.add("Clip", {in(node, 0), out_.scalar(0.0f), out_.scalar(limit)});
}

std::string OperatorWriter::pool(const Node& node) {
  const bool max = node.op->kind() == OpKind::max_pool2d;
  const ops::Pool2dAttrs& a = max ? attributes_of<ops::MaxPool2d>(node).attrs()
                                  : attributes_of<ops::AvgPool2d>(node).attrs();
  std::vector<Attribute> attributes{{"kernel_shape", {a.kernel_h, a.kernel_w}},
                                    {"strides", {a.stride_h, a.stride_w}},
                                    {"pads", {a.padding_h, a.padding_w, a.padding_h, a.padding_w}}};
  if (!max) attributes.emplace_back("count_include_pad", 1);
  return out_.add(max ? "MaxPool" : "AveragePool", {in(node, 0)}, attributes);
}

std::string OperatorWriter::reshape(const Node& node) {
  if (rank(node.outputs[0]) != 2) refuse(node, "only flatten() is written");
  return out_.add("Flatten", {in(node, 0)}, {{"axis", 1}});
}

std::string OperatorWriter::slice(const std::string& of,
                                  std::int64_t begin,
                                  std::int64_t end,
                                  int axis) {
  const std::int64_t axes = axis;
  return out_.add("Slice", {of, out_.row({&begin, 1}), out_.row({&end, 1}), out_.row({&axes, 1})});
}

std::string OperatorWriter::column_embedding(const Node& node) {
  const auto& op = attributes_of<ops::ColumnEmbedding>(node);
  std::vector<std::string> parts;
  for (const ops::ColumnRun& run : op.runs(graph_.types_of(node.inputs))) {
    if (run.table < 0) {
      parts.push_back(slice(in(node, 0), run.feature, run.feature + run.width, 1));
      continue;
    }
    const std::int64_t axis = 1;
    const std::string column = slice(in(node, 0), run.feature, run.feature + 1, 1);
    const std::string index = out_.add(
        "Cast", {out_.add("Squeeze", {column, out_.row({&axis, 1})})}, {{"to", int(Element::i64)}});
    parts.push_back(out_.add("Gather", {in(node, 1 + run.table), index}, {{"axis", 0}}));
  }
  return out_.concatenate(parts, 1);
}

}  // namespace lockstep::onnx
