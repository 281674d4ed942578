// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"

namespace lockstep {

/// Note [Live bytes and order]. Tensors that are views of one another have one storage. Between two
/// nodes those storages are live that have been made and that a node still to run reads, or that
/// are outputs of the program. A result that overwrites its input takes over the input's memory at
/// the moment at which the input dies, so counting both storages gives the same bytes. What is live
/// between two nodes is therefore a function of the set of nodes that have run, not of their order;
/// and part of an order can be changed on its own. These are the rules of plan_program(), whose
/// buffers give the same bytes at every node.

/// What each node of a graph takes of the arena, as far as that can be said of every order.
class MemoryUse {
 public:
  struct Storage {
    std::size_t bytes = 0;        ///< as the arena rounds them
    std::vector<NodeId> readers;  ///< each node once
    bool kept = false;            ///< to the program's end
  };
  struct Made {
    int storage = -1;
    int in_place_of =
        -1;  ///< the storage that it may overwrite where no other node reads it any more
  };
  struct Use {
    std::vector<int> reads;  ///< storages, each once
    std::vector<Made> makes;
    std::size_t workspace = 0;
    std::vector<NodeId> after;  ///< nodes that must have run
  };
  struct Step {
    std::size_t during = 0;  ///< live bytes while the node runs
    std::size_t after = 0;   ///< and once it has run
  };

  /// `workspace_bytes` has one entry per node. In addition to what they read, nodes that sum into
  /// the flat gradient space and those that exchange data with other ranks come after the one
  /// before them: the order in which buckets are complete and collectives start is the same on
  /// every rank, whatever the size of its micro-batch.
  MemoryUse(const Graph& graph, const std::vector<std::size_t>& workspace_bytes);

  const std::vector<Use>& nodes() const { return nodes_; }
  const std::vector<Storage>& storages() const { return storages_; }
  const Use& of(NodeId node) const { return nodes_[std::size_t(node)]; }
  const Storage& storage(int number) const { return storages_[std::size_t(number)]; }
  /// Of the inputs, which are there from the start.
  std::size_t bytes_at_start() const { return bytes_at_start_; }

  /// Running `node` where `live` bytes are live. `dies(storage)`: of a storage that `node` reads,
  /// whether it is dead once `node` has run.
  template <typename Dies>
  Step step(NodeId node, std::size_t live, Dies dies) const {
    const Use& use = of(node);
    Step step{live + use.workspace, live};
    for (const Made& made : use.makes) {
      const Storage& result = storage(made.storage);
      if (made.in_place_of < 0 || !dies(made.in_place_of)) step.during += result.bytes;
      if (result.kept || !result.readers.empty()) step.after += result.bytes;
    }
    for (int read : use.reads)
      if (dies(read)) step.after -= storage(read).bytes;
    return step;
  }

 private:
  int new_storage(const TensorType& type);
  void add_node(const Graph& graph, NodeId id);
  void add_outputs(const Graph& graph, const Node& node, Use& use);

  std::vector<int> storage_of_value_;  // -1: not in the arena
  std::vector<Storage> storages_;
  std::vector<Use> nodes_;
  NodeId last_in_sequence_ = -1;
  std::size_t bytes_at_start_ = 0;
};

/// Runs nodes one after the other and counts.
class LiveBytes {
 public:
  explicit LiveBytes(const MemoryUse& use);

  /// What running `node` next would take.
  MemoryUse::Step look(NodeId node) const;
  MemoryUse::Step run(NodeId node);
  std::size_t live() const { return live_; }
  /// Nodes still to run that read `storage`, and one more where it is kept to the program's end.
  int readers_left(int storage) const { return readers_left_[std::size_t(storage)]; }

 private:
  const MemoryUse& use_;
  std::vector<int> readers_left_;  // per storage
  std::size_t live_;
};

/// Live bytes while each node of `order` runs.
std::vector<std::size_t> live_bytes_of(const MemoryUse& use, const std::vector<NodeId>& order);

}  // namespace lockstep
