// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/plan/arena.h"
#include "core/plan/flat_space.h"

namespace lockstep {

/// How memory of dead buffers is used (LOCKSTEP_PLAN): on shares it, off gives every tensor its
/// own, poison shares it and fills it with NaN as soon as its tensor is dead.
enum class MemoryReuse : std::uint8_t { on, off, poison };

/// Where every tensor of a program lies.
struct ProgramPlan {
  /// Buffer of each value: values that share memory (views, in-place results) share a number.
  /// -1 for parameters and for outputs that are summed into the flat gradient space.
  std::vector<int> buffer_of_value;
  std::vector<BufferLifetime> buffers;  ///< of values first, then of nodes with a workspace
  std::vector<int> workspace_of_node;   ///< buffer number, -1 for none
  ArenaPlan arena;
  /// Buckets that are complete once node i has run; in order.
  std::vector<std::vector<int>> buckets_after_node;
  int first_backward_node = 0;  ///< number of nodes where there is no backward pass
};

/// Lifetimes, in-place results and views, and the arena. Inputs are alive from the start, values to
/// their last use. `workspace_bytes` has one entry per node.
ProgramPlan plan_program(const Graph& graph,
                         const FlatSpace& space,
                         const std::vector<std::size_t>& workspace_bytes,
                         MemoryReuse reuse = MemoryReuse::on);

/// One line per buffer.
std::string to_text(const ProgramPlan& plan);

}  // namespace lockstep
