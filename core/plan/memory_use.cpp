// SPDX-License-Identifier: Apache-2.0
#include "core/plan/memory_use.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/plan/arena.h"

namespace lockstep {
namespace {

/// Every rank must come to these in the same sequence.
bool keeps_its_turn(const Graph& graph, const Node& node) {
  return node.op->kind() == OpKind::all_gather || std::ranges::any_of(node.outputs, [&](ValueId v) {
           return graph.value(v).accumulates_into >= 0;
         });
}

void add_once(std::vector<int>& list, int number) {
  if (number >= 0 && std::ranges::count(list, number) == 0) list.push_back(number);
}

}  // namespace

MemoryUse::MemoryUse(const Graph& graph, const std::vector<std::size_t>& workspace_bytes)
    : storage_of_value_(graph.values().size(), -1), nodes_(graph.nodes().size()) {
  LOCKSTEP_ASSERT(workspace_bytes.size() == nodes_.size());
  for (std::size_t i = 0; i < graph.input_names().size(); ++i) {
    const ValueId input = graph.input_value(int(i));
    storage_of_value_[std::size_t(input)] = new_storage(graph.value(input).type);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].workspace = aligned_in_arena(workspace_bytes[i]);
    add_node(graph, NodeId(i));
  }
  for (const auto& [name, value] : graph.outputs())
    if (const int storage = storage_of_value_[std::size_t(value)]; storage >= 0)
      storages_[std::size_t(storage)].kept = true;
  for (std::size_t i = 0; i < graph.input_names().size(); ++i)
    if (storages_[i].kept || !storages_[i].readers.empty()) bytes_at_start_ += storages_[i].bytes;
}

int MemoryUse::new_storage(const TensorType& type) {
  storages_.push_back({.bytes = aligned_in_arena(type.bytes()), .readers = {}, .kept = false});
  return int(storages_.size()) - 1;
}

void MemoryUse::add_node(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes()[std::size_t(id)];
  Use& use = nodes_[std::size_t(id)];
  for (ValueId input : node.inputs) {
    add_once(use.reads, storage_of_value_[std::size_t(input)]);
    add_once(use.after, graph.value(input).producer);
  }
  for (int read : use.reads) storages_[std::size_t(read)].readers.push_back(id);
  if (keeps_its_turn(graph, node)) {
    add_once(use.after, last_in_sequence_);
    last_in_sequence_ = id;
  }
  add_outputs(graph, node, use);
}

void MemoryUse::add_outputs(const Graph& graph, const Node& node, Use& use) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueInfo& output = graph.value(node.outputs[i]);
    if (output.accumulates_into >= 0) continue;
    int& storage = storage_of_value_[std::size_t(node.outputs[i])];
    if (node.op->is_view()) {
      storage = storage_of_value_[std::size_t(node.inputs[0])];
      continue;
    }
    storage = new_storage(output.type);
    Made made{.storage = storage};
    if (const int input = node.op->in_place_input(int(i)); input >= 0) {
      const ValueId overwritten = node.inputs[std::size_t(input)];
      const int candidate = storage_of_value_[std::size_t(overwritten)];
      const auto reads_it = [&](ValueId v) {
        return storage_of_value_[std::size_t(v)] == candidate;
      };
      if (graph.value(overwritten).type.bytes() == output.type.bytes() &&
          std::ranges::count_if(node.inputs, reads_it) == 1)
        made.in_place_of = candidate;
    }
    use.makes.push_back(made);
  }
}

LiveBytes::LiveBytes(const MemoryUse& use) : use_(use), live_(use.bytes_at_start()) {
  for (const MemoryUse::Storage& storage : use.storages())
    readers_left_.push_back(int(storage.readers.size()) + (storage.kept ? 1 : 0));
}

MemoryUse::Step LiveBytes::look(NodeId node) const {
  return use_.step(
      node, live_, [&](int storage) { return readers_left_[std::size_t(storage)] == 1; });
}

MemoryUse::Step LiveBytes::run(NodeId node) {
  const MemoryUse::Step step = look(node);
  for (int read : use_.of(node).reads) --readers_left_[std::size_t(read)];
  live_ = step.after;
  return step;
}

std::vector<std::size_t> live_bytes_of(const MemoryUse& use, const std::vector<NodeId>& order) {
  std::vector<std::size_t> bytes;
  LiveBytes live(use);
  for (NodeId node : order) bytes.push_back(live.run(node).during);
  return bytes;
}

}  // namespace lockstep
