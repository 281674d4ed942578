// SPDX-License-Identifier: Apache-2.0
#include "core/plan/program_plan.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, MemoryReuse reuse) : graph_(graph), reuse_(reuse) {
    plan_.buffer_of_value.assign(graph.values().size(), -1);
    find_last_uses();
  }

  ProgramPlan run(const FlatSpace& space, const std::vector<std::size_t>& workspace_bytes) {
    for (std::size_t i = 0; i < graph_.input_names().size(); ++i)
      new_buffer(graph_.input_value(int(i)), 0);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) place_outputs(int(i));
    extend_lifetimes();
    add_workspaces(workspace_bytes);
    if (reuse_ == MemoryReuse::off)
      for (BufferLifetime& b : plan_.buffers) b = {b.bytes, 0, int(graph_.nodes().size())};
    plan_.arena = plan_arena(plan_.buffers);
    verify(plan_.arena, plan_.buffers);
    find_bucket_ends(space);
    find_phases();
    return std::move(plan_);
  }

 private:
  /// Last node that reads each value; views pass their readers on to what they view.
  void find_last_uses() {
    last_use_.assign(graph_.values().size(), -1);
    for (const auto& [name, value] : graph_.outputs())
      last_use_[std::size_t(value)] = int(graph_.nodes().size());
    for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      int last = int(i);
      if (node.op->is_view()) last = std::max(last, last_use_[std::size_t(node.outputs[0])]);
      for (ValueId input : node.inputs)
        last_use_[std::size_t(input)] = std::max(last_use_[std::size_t(input)], last);
    }
  }

  void new_buffer(ValueId value, int first) {
    plan_.buffer_of_value[std::size_t(value)] = int(plan_.buffers.size());
    plan_.buffers.push_back({graph_.value(value).type.bytes(), first, first});
    last_use_of_buffer_.push_back(last_use_[std::size_t(value)]);
  }

  void share_buffer(ValueId value, ValueId shared) {
    const int buffer = plan_.buffer_of_value[std::size_t(shared)];
    plan_.buffer_of_value[std::size_t(value)] = buffer;
    int& last = last_use_of_buffer_[std::size_t(buffer)];
    last = std::max(last, last_use_[std::size_t(value)]);
  }

  void place_outputs(int index) {
    const Node& node = graph_.nodes()[std::size_t(index)];
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (graph_.value(output).accumulates_into >= 0) continue;
      if (const ValueId shared = shares_memory_with(node, int(i), index); shared != kNoValue)
        share_buffer(output, shared);
      else
        new_buffer(output, index);
    }
  }

  ValueId shares_memory_with(const Node& node, int output, int index) const {
    if (node.op->is_view()) {
      // A view of a parameter would need a pointer into the flat space; no operator makes one.
      LOCKSTEP_ASSERT(plan_.buffer_of_value[std::size_t(node.inputs[0])] >= 0);
      return node.inputs[0];
    }
    const int input = node.op->in_place_input(output);
    if (input < 0 || reuse_ == MemoryReuse::off) return kNoValue;
    const ValueId value = node.inputs[std::size_t(input)];
    const bool fits = graph_.value(value).type.bytes() ==
                      graph_.value(node.outputs[std::size_t(output)]).type.bytes();
    return fits && !reads_twice(node, value) && dead_after(value, index) ? value : kNoValue;
  }

  /// As itself or as a view.
  bool reads_twice(const Node& node, ValueId value) const {
    const int buffer = plan_.buffer_of_value[std::size_t(value)];
    return std::ranges::count_if(node.inputs, [&](ValueId input) {
             return plan_.buffer_of_value[std::size_t(input)] == buffer;
           }) > 1;
  }

  /// No value that shares the buffer is read by a node after `index`.
  bool dead_after(ValueId value, int index) const {
    const int buffer = plan_.buffer_of_value[std::size_t(value)];
    return buffer >= 0 && last_use_of_buffer_[std::size_t(buffer)] <= index;
  }

  void extend_lifetimes() {
    for (std::size_t v = 0; v < plan_.buffer_of_value.size(); ++v) {
      if (plan_.buffer_of_value[v] < 0) continue;
      BufferLifetime& buffer = plan_.buffers[std::size_t(plan_.buffer_of_value[v])];
      buffer.last = std::max({buffer.last, last_use_[v], int(graph_.values()[v].producer)});
    }
  }

  void add_workspaces(const std::vector<std::size_t>& bytes) {
    plan_.workspace_of_node.assign(bytes.size(), -1);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == 0) continue;
      plan_.workspace_of_node[i] = int(plan_.buffers.size());
      plan_.buffers.push_back({bytes[i], int(i), int(i)});
    }
  }

  void find_bucket_ends(const FlatSpace& space) {
    std::vector<int> end(space.buckets.size(), -1);
    for (const ValueInfo& value : graph_.values())
      if (value.accumulates_into >= 0) {
        const Segment& segment = space.of(value.accumulates_into);
        for (auto b = std::size_t(segment.bucket); b < end.size(); ++b) {
          if (space.buckets[b].offset >= segment.offset + segment.elems) break;
          end[b] = std::max(end[b], int(value.producer));
        }
      }
    plan_.buckets_after_node.resize(graph_.nodes().size());
    for (std::size_t b = 0; b < end.size(); ++b)
      if (end[b] >= 0) plan_.buckets_after_node[std::size_t(end[b])].push_back(int(b));
  }

  void find_phases() {
    plan_.first_backward_node = int(graph_.nodes().size());
    for (std::size_t i = graph_.nodes().size(); i-- > 0;)
      if (graph_.nodes()[i].phase == NodePhase::backward) plan_.first_backward_node = int(i);
  }

  const Graph& graph_;
  MemoryReuse reuse_;
  std::vector<int> last_use_;            // by value
  std::vector<int> last_use_of_buffer_;  // of the values placed so far
  ProgramPlan plan_;
};

}  // namespace

ProgramPlan plan_program(const Graph& graph,
                         const FlatSpace& space,
                         const std::vector<std::size_t>& workspace_bytes,
                         MemoryReuse reuse) {
  return Planner(graph, reuse).run(space, workspace_bytes);
}

std::string to_text(const ProgramPlan& plan) {
  std::string text = fmt::format("arena {} bytes\n", plan.arena.bytes);
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    text += fmt::format("buffer {} offset={} bytes={} steps={}..{}\n",
                        i,
                        plan.arena.offsets[i],
                        plan.buffers[i].bytes,
                        plan.buffers[i].first,
                        plan.buffers[i].last);
  return text;
}

}  // namespace lockstep
