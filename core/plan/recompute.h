// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "lockstep/precision.h"

namespace lockstep {

/// The graph with backward reading recomputed copies of `dropped` (forward activations): the nodes
/// that made them run again, under the same paths (so dropout keeps its numbers), right before
/// backward first reads one. Copies of running statistics and metrics are not summed again. The
/// results have the same bits.
Graph recompute(const Graph& graph, const std::vector<bool>& dropped);

/// A way to save activations: what is dropped and what computing it again costs.
struct RecomputeChoice {
  std::vector<bool> dropped;  ///< per value
  double flops = 0;
  bool is_checkpoints = false;  ///< everything between checkpoints
};

/// Choices for a differentiated graph, from no recomputation on in ascending cost: cheap operators
/// alone (elementwise, normalisation, pooling), dearer ones too, and everything between checkpoints
/// (Chen et al. 2016, section 4.1), which are placed so that the largest sum of a segment and the
/// checkpoints before it is smallest. That one can be cheaper than the dearest operators alone; it
/// is absent where no checkpoint makes that sum smaller (a small mlp).
std::vector<RecomputeChoice> recompute_choices(const Graph& graph);

/// The index of Recompute::all among `choices`: the one with checkpoints; where it is absent, the
/// last.
std::size_t index_of_all(const std::vector<RecomputeChoice>& choices);

}  // namespace lockstep
