// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace lockstep {

/// Note [Dealt matrices]. Orthogonalization of a matrix takes all of it and nothing else, and most
/// of the time of an update. So ranks share the matrices out: each orthogonalizes its own and sends
/// the others what they become (MatrixExchange). The same kernels over the same numbers, wherever
/// they run: no bit depends on who has which. Of an optimizer that is not sharded the ranks of one
/// host share, since a network moves most matrices no faster than a device orthogonalizes them;
/// of a sharded one all ranks do, because none of them has whole matrices anyway.

/// The member who orthogonalizes each of hidden_matrices(), in their order: the largest matrix
/// first, each goes to whoever has least to do (Graham 1969, "Bounds on multiprocessing timing
/// anomalies": at most 4/3 - 1 / (3 members) of the best). Equal on all ranks.
std::vector<int> deal_matrices(const Graph& training, int members);

/// The part of all multiplications that each member does: [members], of sum 1, or of zeros where
/// there is no hidden matrix.
std::vector<double> dealt_work(const Graph& training, int members);

}  // namespace lockstep
