// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/exec/backend.h"
#include "core/graph/graph.h"

namespace lockstep::test {

/// Runs the nodes of a small graph one after the other, each value in memory of its own, so that
/// every one can be looked at. Nothing accumulates.
class GraphRunner {
 public:
  GraphRunner(const Graph& graph, Backend& backend) : graph_(graph), backend_(backend) {
    for (const ValueInfo& value : graph.values())
      memory_.push_back(backend.allocate(value.type.bytes(), "value"));
  }

  template <typename T>
  void set(ValueId id, std::span<const T> values) {
    LOCKSTEP_ASSERT(values.size_bytes() == graph_.value(id).type.bytes());
    backend_.copy_to_device(memory(id), values.data(), values.size_bytes());
  }
  std::vector<float> get(ValueId id) const {
    std::vector<float> values(std::size_t(graph_.value(id).type.elems()));
    backend_.copy_to_host(values.data(), memory(id), values.size() * sizeof(float));
    return values;
  }

  void run() {
    for (const Node& node : graph_.nodes())
      if (node.op->is_view())
        backend_.copy(memory(node.outputs[0]),
                      memory(node.inputs[0]),
                      graph_.value(node.outputs[0]).type.bytes());
      else
        run(node);
  }

 private:
  void* memory(ValueId id) const { return memory_[std::size_t(id)]->data(); }

  void run(const Node& node) {
    KernelSpec spec{
        *node.op, graph_.types_of(node.inputs), graph_.types_of(node.outputs), node.path, {}, {}};
    KernelBuffers buffers;
    for (ValueId input : node.inputs) {
      const ValueInfo& info = graph_.value(input);
      spec.input_parameter.push_back(info.role == ValueRole::parameter ? info.index : -1);
      buffers.inputs.push_back(memory(input));
    }
    for (ValueId output : node.outputs) buffers.outputs.push_back(memory(output));
    spec.output_accumulates.assign(node.outputs.size(), false);

    const std::unique_ptr<Kernel> kernel = backend_.make_kernel(spec);
    const auto workspace = backend_.allocate(kernel->workspace_bytes(), "workspace");
    buffers.workspace = workspace->data();
    std::vector<std::unique_ptr<DeviceBuffer>> packed;
    for (const PackedCopy& copy : kernel->packed_copies()) {
      packed.push_back(backend_.allocate(copy.bytes, "packed copy"));
      buffers.packed.push_back(packed.back()->data());
    }
    kernel->bind(buffers);
    for (int i = 0; i < int(packed.size()); ++i) kernel->pack(i);
    kernel->run({});
  }

  const Graph& graph_;
  Backend& backend_;
  std::vector<std::unique_ptr<DeviceBuffer>> memory_;
};

}  // namespace lockstep::test
