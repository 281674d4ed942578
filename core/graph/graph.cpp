// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"

namespace lockstep {

ValueId Graph::add_input(const std::string& name, const TensorType& type) {
  values_.push_back({.type = type, .role = ValueRole::input, .index = int(input_names_.size())});
  input_names_.push_back(name);
  input_values_.push_back(ValueId(values_.size()) - 1);
  return input_values_.back();
}

Graph::Parameters& Graph::own_parameters() {
  if (parameters_.use_count() > 1) parameters_ = std::make_shared<Parameters>(*parameters_);
  return *parameters_;
}

Graph Graph::without_nodes() const {
  Graph graph;
  graph.parameters_ = parameters_;
  graph.input_names_ = input_names_;
  graph.input_values_.resize(input_values_.size());
  graph.parameter_values_.resize(parameter_values_.size());
  graph.notes_ = notes_;
  for (const ValueInfo& info : values_) {
    if (info.role == ValueRole::activation) continue;
    auto& places = info.role == ValueRole::input ? graph.input_values_ : graph.parameter_values_;
    places[std::size_t(info.index)] = ValueId(graph.values_.size());
    graph.values_.push_back(info);
  }
  return graph;
}

ValueId Graph::add_parameter(Parameter parameter) {
  Parameters& all = own_parameters();
  LOCKSTEP_CHECK(all.names.insert(parameter.name).second,
                 ConfigError,
                 "model: two parameters are named '{}'; give the layers different names",
                 parameter.name);
  values_.push_back({.type = {parameter.shape, DType::f32},
                     .role = ValueRole::parameter,
                     .index = int(all.list.size())});
  all.list.push_back(std::move(parameter));
  parameter_values_.push_back(ValueId(values_.size()) - 1);
  return parameter_values_.back();
}

std::vector<ValueId> Graph::add_node(std::shared_ptr<const Operator> op,
                                     std::vector<ValueId> inputs,
                                     const std::string& path,
                                     SourceLoc where,
                                     NodePhase phase) {
  std::vector<TensorType> outputs;
  try {
    outputs = op->infer(types_of(inputs));
  } catch (const ShapeError& error) {
    throw ShapeError(fmt::format("{} ('{}', asked for at {}:{})",
                                 as_written(error.what()),
                                 path,
                                 where.file,
                                 where.line),
                     as_written(error.hint()));
  }
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    values_.push_back({.type = outputs[i],
                       .role = ValueRole::activation,
                       .index = int(i),
                       .producer = NodeId(nodes_.size())});
    ids.push_back(ValueId(values_.size()) - 1);
  }
  nodes_.push_back({std::move(op), std::move(inputs), ids, path, where, phase});
  return ids;
}

void Graph::accumulate_into(ValueId value, int parameter) {
  ValueInfo& info = values_[std::size_t(value)];
  LOCKSTEP_ASSERT(info.role == ValueRole::activation && info.accumulates_into < 0);
  LOCKSTEP_ASSERT(info.type.elems() == parameters()[std::size_t(parameter)].shape.elems());
  LOCKSTEP_ASSERT(nodes_[std::size_t(info.producer)].op->accumulates(info.index));
  info.accumulates_into = parameter;
}

void Graph::add_output(const std::string& name, ValueId value) {
  LOCKSTEP_ASSERT(this->value(value).role == ValueRole::activation);
  outputs_.emplace_back(name, value);
}

void Graph::set_weight_parameter(int statistic, int weight) {
  own_parameters().list[std::size_t(statistic)].weight_parameter = weight;
}

std::vector<TensorType> Graph::types_of(std::span<const ValueId> ids) const {
  std::vector<TensorType> types;
  types.reserve(ids.size());
  for (ValueId id : ids) types.push_back(value(id).type);
  return types;
}

namespace {

std::string describe(const Graph& graph, ValueId id) {
  const ValueInfo& info = graph.value(id);
  std::string text = fmt::format("%{}:{}", id, info.type.to_string());
  if (info.accumulates_into >= 0)
    text += fmt::format(" += {}", graph.parameters()[std::size_t(info.accumulates_into)].name);
  return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text;
  for (std::size_t i = 0; i < graph.input_names().size(); ++i)
    text += fmt::format(
        "input {} {}\n", graph.input_names()[i], describe(graph, graph.input_value(int(i))));
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    text += fmt::format("parameter {} {} kind={} init={}:{} momentum={} weight={}{}{}\n",
                        p.name,
                        describe(graph, graph.parameter_value(int(i))),
                        int(p.kind),
                        int(p.init.kind),
                        p.init.value,
                        p.momentum,
                        p.weight_parameter,
                        p.normalisation_or_bias ? " norm-or-bias" : "",
                        p.frozen ? " frozen" : "");
  }
  for (const Node& node : graph.nodes()) {
    std::vector<std::string> outputs, inputs;
    for (ValueId id : node.outputs) outputs.push_back(describe(graph, id));
    for (ValueId id : node.inputs) inputs.push_back(fmt::format("%{}", id));
    const std::string attributes = node.op->attributes();
    text += fmt::format("{} = {}({}){}{}  # {}\n",
                        fmt::join(outputs, ", "),
                        name_of(node.op->kind()),
                        fmt::join(inputs, ", "),
                        attributes.empty() ? "" : " ",
                        attributes,
                        node.path);
  }
  for (const auto& [name, value] : graph.outputs())
    text += fmt::format("output {} {}\n", name, describe(graph, value));
  return text;
}

const TensorType& Value::type() const { return graph_->value(id_).type; }
const Shape& Value::shape() const { return type().shape; }

}  // namespace lockstep
