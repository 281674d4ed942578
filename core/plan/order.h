// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"

/// In which order a program runs its nodes: the last pass over a graph, once it is differentiated,
/// fused, and computes again what it is to compute again.
namespace lockstep {

/// How much of the given order's memory another one must save to be worth it: the given one runs
/// through the model as it was written and hands over gradients as early as it can.
inline constexpr double kMinSaving = 0.01;

/// An order of the graph's nodes in which less is live at once than in the given one (by
/// kMinSaving at least), or the given one. Only nodes before the first one of backward change
/// places with each other, and only those after; nodes that sum into the flat gradient space, and
/// collectives, keep their sequence (see MemoryUse). Each node computes the same bits in any order.
///
/// Where the most bytes are live, the best order of a window of nodes around is searched
/// (search_window()), and so on where the most are live then, until the peak stays. The window is
/// the whole phase where that has few nodes: its order is the best there is as far as the search's
/// budget reaches. For larger phases a list schedule, which always runs the node that leaves the
/// fewest live bytes, is improved in the same way, and is taken where it saves another tenth.
///
/// `workspace_bytes` has one entry per node. Depends on the arguments alone.
std::vector<NodeId> order_for_memory(const Graph& graph,
                                     const std::vector<std::size_t>& workspace_bytes);

/// The same graph with its nodes in that order; values have other numbers.
Graph in_order(const Graph& graph, const std::vector<NodeId>& order);

}  // namespace lockstep
