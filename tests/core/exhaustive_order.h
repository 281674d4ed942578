// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "core/graph/graph.h"
#include "core/plan/arena.h"

namespace lockstep {

/// The smallest peak of live bytes among all orders of a graph's nodes, found by trying them, with
/// its own account of which buffers exist: one for each tensor that is made, that views of it and
/// results in its place join, until no node to come reads any of them.
class ExhaustiveOrder {
 public:
  ExhaustiveOrder(const Graph& graph, const std::vector<std::size_t>& workspace)
      : graph_(graph), workspace_(workspace) {
    const auto& nodes = graph.nodes();
    first_backward_ = nodes.size();
    for (std::size_t i = nodes.size(); i-- > 0;)
      if (nodes[i].phase == NodePhase::backward) first_backward_ = i;
  }

  std::size_t best() {
    best_ = SIZE_MAX;
    seen_.clear();
    try_all(start(), 0);
    return best_;
  }

  std::size_t peak_of(const std::vector<NodeId>& order) const {
    Memory memory = start();
    std::size_t peak = 0;
    for (NodeId node : order) peak = std::max(peak, run(memory, std::size_t(node)));
    return peak;
  }

  /// Whether it keeps what every order must keep.
  bool is_legal(const std::vector<NodeId>& order) const {
    std::vector<bool> done(graph_.nodes().size(), false);
    for (NodeId node : order) {
      if (done[std::size_t(node)] || !can_run(done, std::size_t(node))) return false;
      done[std::size_t(node)] = true;
    }
    return order.size() == done.size();
  }

 private:
  struct Memory {
    std::vector<bool> done;          // per node
    std::vector<int> buffer_of;      // per value; -1: none
    std::vector<std::size_t> bytes;  // per buffer; 0 once it is free
  };

  Memory start() const {
    Memory memory{std::vector<bool>(graph_.nodes().size(), false),
                  std::vector<int>(graph_.values().size(), -1),
                  {}};
    for (std::size_t i = 0; i < graph_.input_names().size(); ++i)
      new_buffer(memory, graph_.input_value(int(i)));
    return memory;
  }

  void new_buffer(Memory& memory, ValueId value) const {
    memory.buffer_of[std::size_t(value)] = int(memory.bytes.size());
    memory.bytes.push_back(aligned(graph_.value(value).type.bytes()));
  }

  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  bool in_sequence(const Node& node) const {
    return node.op->kind() == OpKind::all_gather ||
           std::ranges::any_of(node.outputs,
                               [&](ValueId v) { return graph_.value(v).accumulates_into >= 0; });
  }

  bool can_run(const std::vector<bool>& done, std::size_t index) const {
    const Node& node = graph_.nodes()[index];
    for (ValueId input : node.inputs)
      if (const NodeId producer = graph_.value(input).producer;
          producer >= 0 && !done[std::size_t(producer)])
        return false;
    for (std::size_t i = 0; i < index; ++i) {
      if (done[i]) continue;
      if (i < first_backward_ && index >= first_backward_) return false;
      if (in_sequence(node) && in_sequence(graph_.nodes()[i])) return false;
    }
    return true;
  }

  /// Whether something will still read the buffer once node `index` has run.
  bool is_needed(const Memory& memory, int buffer, std::size_t index) const {
    const auto in_it = [&](ValueId v) { return memory.buffer_of[std::size_t(v)] == buffer; };
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      if (i != index && !memory.done[i] && std::ranges::any_of(graph_.nodes()[i].inputs, in_it))
        return true;
    return std::ranges::any_of(graph_.outputs(),
                               [&](const auto& output) { return in_it(output.second); });
  }

  bool goes_in_place(const Memory& memory, std::size_t index, std::size_t output) const {
    const Node& node = graph_.nodes()[index];
    const int input = node.op->in_place_input(int(output));
    if (input < 0) return false;
    const ValueId overwritten = node.inputs[std::size_t(input)];
    const int buffer = memory.buffer_of[std::size_t(overwritten)];
    return buffer >= 0 &&
           graph_.value(overwritten).type.bytes() ==
               graph_.value(node.outputs[output]).type.bytes() &&
           std::ranges::count_if(
               node.inputs,
               [&](ValueId v) { return memory.buffer_of[std::size_t(v)] == buffer; }) == 1 &&
           !is_needed(memory, buffer, index);
  }

  /// Runs a node; returns the bytes of all buffers and its workspace meanwhile.
  std::size_t run(Memory& memory, std::size_t index) const {
    const Node& node = graph_.nodes()[index];
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (graph_.value(output).accumulates_into >= 0) continue;
      int shared = -1;
      if (node.op->is_view())
        shared = node.inputs[0];
      else if (goes_in_place(memory, index, i))
        shared = node.inputs[std::size_t(node.op->in_place_input(int(i)))];
      if (shared < 0)
        new_buffer(memory, output);
      else
        memory.buffer_of[std::size_t(output)] = memory.buffer_of[std::size_t(shared)];
    }
    std::size_t meanwhile = aligned(workspace_[index]);
    for (std::size_t bytes : memory.bytes) meanwhile += bytes;
    memory.done[index] = true;
    for (std::size_t b = 0; b < memory.bytes.size(); ++b)
      if (!is_needed(memory, int(b), index)) memory.bytes[b] = 0;
    return meanwhile;
  }

  /// Two ways to the same buffers, with the same nodes to come, continue alike.
  std::vector<int> state_of(const Memory& memory) const {
    std::vector<int> state(memory.done.begin(), memory.done.end());
    std::map<int, int> number;
    for (int buffer : memory.buffer_of) {
      const bool exists = buffer >= 0 && memory.bytes[std::size_t(buffer)] > 0;
      state.push_back(exists ? number.try_emplace(buffer, int(number.size())).first->second : -1);
    }
    return state;
  }

  void try_all(const Memory& memory, std::size_t peak) {
    if (peak >= best_) return;
    if (std::ranges::count(memory.done, false) == 0) {
      best_ = peak;
      return;
    }
    const auto [seen, is_new] = seen_.try_emplace(state_of(memory), peak);
    if (!is_new && seen->second <= peak) return;
    seen->second = peak;
    for (std::size_t i = 0; i < memory.done.size(); ++i) {
      if (memory.done[i] || !can_run(memory.done, i)) continue;
      Memory next = memory;
      const std::size_t meanwhile = run(next, i);
      try_all(next, std::max(peak, meanwhile));
    }
  }

  const Graph& graph_;
  const std::vector<std::size_t>& workspace_;
  std::size_t first_backward_ = 0;
  std::size_t best_ = SIZE_MAX;
  std::map<std::vector<int>, std::size_t> seen_;
};

}  // namespace lockstep
