// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/graph/graph.h"

namespace lockstep {

/// Builds a graph from another one, node by node, so that a pass says only what it changes. Inputs
/// and parameters are copied at construction, in order.
class GraphRewriter {
 public:
  explicit GraphRewriter(const Graph& source);

  /// What a value of the source has become; it must have been copied or mapped.
  ValueId mapped(ValueId source) const;
  std::vector<ValueId> mapped(const std::vector<ValueId>& sources) const;
  /// The element type that a value of the source has become.
  DType type(ValueId source) const { return result_.value(mapped(source)).type.dtype; }
  /// Whether `source` has become something, or belongs to a skipped node.
  bool has(ValueId source) const {
    return map_[std::size_t(source)] != kNoValue || skipped_[std::size_t(source)];
  }
  /// `node` of the source is not to be copied: another one has taken it in.
  void skip(const Node& node) {
    for (ValueId output : node.outputs) skipped_[std::size_t(output)] = true;
  }
  void add_note(std::string note) { result_.add_note(std::move(note)); }
  /// From here on `result` stands for `source`.
  void map(ValueId source, ValueId result) { map_[std::size_t(source)] = result; }

  /// Appends `node` of the source as it is, or with another operator of equally many outputs.
  /// Outputs keep the slot that they are summed into.
  void copy(const Node& node) { copy(node, node.op); }
  void copy(const Node& node, std::shared_ptr<const Operator> op);
  /// Appends an operator with the path, call site and phase of `like`; inputs are values of the
  /// result.
  std::vector<ValueId> emit(const Node& like,
                            std::shared_ptr<const Operator> op,
                            std::vector<ValueId> inputs);
  /// Output `source` of the source graph is computed as `result` from here on, and is summed into
  /// the slot that `source` was summed into.
  void replace(ValueId source, ValueId result);

  /// The finished graph, with what the source's outputs have become.
  Graph take();

 private:
  const Graph& source_;
  Graph result_;
  std::vector<ValueId> map_;
  std::vector<bool> skipped_;
};

/// Number of nodes that read each value.
std::vector<int> count_uses(const Graph& graph);

}  // namespace lockstep
