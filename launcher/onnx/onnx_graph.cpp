// SPDX-License-Identifier: Apache-2.0
#include "launcher/onnx/onnx_graph.h"

#include <fmt/format.h>

#include "onnx.pb.h"

namespace lockstep::onnx {
namespace {

void describe(onnx_file::ValueInfo& info,
              const std::string& name,
              Element type,
              std::span<const Extent> shape) {
  info.set_name(name);
  onnx_file::TensorType& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(int(type));
  for (const Extent& extent : shape) {
    onnx_file::Dimension& dim = *tensor.mutable_shape()->add_dim();
    if (extent.name.empty())
      dim.set_dim_value(extent.value);
    else
      dim.set_dim_param(extent.name);
  }
}

void add_attribute(onnx_file::Node& node, const Attribute& attribute) {
  onnx_file::Attribute& to = *node.add_attribute();
  to.set_name(attribute.name);
  to.set_type(int(attribute.kind));
  if (attribute.kind == Attribute::Kind::real) to.set_f(attribute.f);
  if (attribute.kind == Attribute::Kind::whole) to.set_i(attribute.ints.front());
  if (attribute.kind == Attribute::Kind::several)
    to.mutable_ints()->Assign(attribute.ints.begin(), attribute.ints.end());
}

}  // namespace

void GraphWriter::add_input(const std::string& name, Element type, std::span<const Extent> shape) {
  names_.insert(name);
  describe(*graph_.add_input(), name, type, shape);
}

void GraphWriter::add_output(const std::string& name, std::span<const Extent> shape) {
  names_.insert(name);
  describe(*graph_.add_output(), name, Element::f32, shape);
}

onnx_file::Node& GraphWriter::append(const std::string& op,
                                     std::initializer_list<std::string> inputs,
                                     const std::vector<Attribute>& attributes) {
  onnx_file::Node& node = *graph_.add_node();
  node.set_op_type(op);
  node.set_name(unique(path_ + "/" + op));
  for (const std::string& input : inputs) node.add_input(input);
  for (const Attribute& attribute : attributes) add_attribute(node, attribute);
  return node;
}

std::string GraphWriter::add(const std::string& op,
                             std::initializer_list<std::string> inputs,
                             const std::vector<Attribute>& attributes) {
  return add_several(op, inputs, attributes, 1).front();
}

std::vector<std::string> GraphWriter::add_several(const std::string& op,
                                                  std::initializer_list<std::string> inputs,
                                                  const std::vector<Attribute>& attributes,
                                                  int outputs) {
  onnx_file::Node& node = append(op, inputs, attributes);
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) names.push_back(unique(node.name() + "_out"));
  node.mutable_output()->Assign(names.begin(), names.end());
  return names;
}

std::string GraphWriter::concatenate(const std::vector<std::string>& inputs, int axis) {
  onnx_file::Node& node = append("Concat", {}, {{"axis", axis}});
  node.mutable_input()->Assign(inputs.begin(), inputs.end());
  node.add_output(unique(node.name() + "_out"));
  return node.output(0);
}

void GraphWriter::name_output(const std::string& value, const std::string& output) {
  append("Identity", {value}, {}).add_output(output);
}

std::string GraphWriter::scalar(float value) {
  return constant(Element::f32, std::as_bytes(std::span(&value, 1)), {});
}

std::string GraphWriter::whole(std::int64_t value) {
  return constant(Element::i64, std::as_bytes(std::span(&value, 1)), {});
}

std::string GraphWriter::row(std::span<const std::int64_t> values) {
  const std::int64_t elems = std::ssize(values);
  return constant(Element::i64, std::as_bytes(values), {&elems, 1});
}

std::string GraphWriter::tensor(std::span<const float> values,
                                std::span<const std::int64_t> shape) {
  return constant(Element::f32, std::as_bytes(values), shape);
}

std::string GraphWriter::constant(Element type,
                                  std::span<const std::byte> bytes,
                                  std::span<const std::int64_t> shape) {
  onnx_file::Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(unique(path_ + "/constant"));
  tensor.set_data_type(int(type));
  tensor.mutable_dims()->Assign(shape.begin(), shape.end());
  tensor.set_raw_data(bytes.data(), bytes.size());
  return tensor.name();
}

std::string GraphWriter::unique(const std::string& name) {
  std::string result = name;
  for (int i = 1; !names_.insert(result).second; ++i) result = fmt::format("{}_{}", name, i);
  return result;
}

}  // namespace lockstep::onnx
