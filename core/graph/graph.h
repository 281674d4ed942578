// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/graph/operator.h"
#include "lockstep/parameter.h"
#include "lockstep/value.h"

namespace lockstep {

using NodeId = std::int32_t;

enum class ValueRole : std::uint8_t { activation, input, parameter };
enum class NodePhase : std::uint8_t { forward, backward };

/// A tensor of the graph: an input slot, a parameter, or the output of one node.
struct ValueInfo {
  TensorType type;
  ValueRole role = ValueRole::activation;
  int index = -1;             ///< input or parameter number, or the output number of the producer
  NodeId producer = -1;       ///< activation only
  int accumulates_into = -1;  ///< parameter whose flat gradient slot this output is summed into
};

/// One application of an operator.
struct Node {
  std::shared_ptr<const Operator> op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string path;  ///< "layer1.0.conv1"; keys random numbers, so passes keep it
  SourceLoc where;   ///< the line of the model that asked for it
  NodePhase phase = NodePhase::forward;
};

/// A static program over values, for one micro-batch size. Nodes are in execution order; each value
/// is produced before it is used. Built by nn::Builder, extended by differentiate().
class Graph {
 public:
  ValueId add_input(const std::string& name, const TensorType& type);
  /// The value of parameter `parameters()[index]`. Throws ConfigError: the name is taken.
  ValueId add_parameter(Parameter parameter);
  /// Infers the output types and appends a node. Throws ShapeError with path and call site.
  std::vector<ValueId> add_node(std::shared_ptr<const Operator> op,
                                std::vector<ValueId> inputs,
                                const std::string& path,
                                SourceLoc where,
                                NodePhase phase = NodePhase::forward);
  /// Sums `value` over micro-batches and ranks into the flat gradient slot of `parameter`.
  void accumulate_into(ValueId value, int parameter);
  /// Has trained parameter `parameter` keep its value.
  void freeze(int parameter) { own_parameters().list[std::size_t(parameter)].frozen = true; }
  /// Names the metric that holds the weight of running statistic `statistic`.
  void set_weight_parameter(int statistic, int weight);
  /// Its inputs, parameters and notes alone, where a pass begins that makes another graph. Values
  /// have the numbers of a graph that declares them before its first node.
  Graph without_nodes() const;
  /// What a pass did, for people; not part of to_text().
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  const std::vector<std::string>& notes() const { return notes_; }
  /// Keeps `value` after the program's end, to be read under `name`.
  void add_output(const std::string& name, ValueId value);
  /// The value that reads parameter `index`.
  ValueId parameter_value(int index) const { return parameter_values_[std::size_t(index)]; }

  const std::vector<Node>& nodes() const { return nodes_; }
  const ValueInfo& value(ValueId id) const { return values_[std::size_t(id)]; }
  const std::vector<ValueInfo>& values() const { return values_; }
  const std::vector<Parameter>& parameters() const { return parameters_->list; }
  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<std::pair<std::string, ValueId>>& outputs() const { return outputs_; }
  ValueId input_value(int index) const { return input_values_[std::size_t(index)]; }
  std::vector<TensorType> types_of(std::span<const ValueId> ids) const;

 private:
  struct Parameters {
    std::vector<Parameter> list;
    std::unordered_set<std::string> names;
  };
  /// To be changed: a copy of those that other graphs share.
  Parameters& own_parameters();

  std::vector<Node> nodes_;
  std::vector<ValueInfo> values_;
  std::shared_ptr<Parameters> parameters_ = std::make_shared<Parameters>();  // of all its passes
  std::vector<ValueId> parameter_values_;
  std::vector<std::string> input_names_;
  std::vector<ValueId> input_values_;
  std::vector<std::pair<std::string, ValueId>> outputs_;
  std::vector<std::string> notes_;
};

/// One line per parameter, input and node, equal for equal programs; used by dumps and
/// fingerprints.
std::string to_text(const Graph& graph);

/// Checks what later stages rely on: producers precede uses, types agree with the operators' own
/// rules, views and accumulations are well formed. Throws InternalError naming the node.
void verify(const Graph& graph);

}  // namespace lockstep
