// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/graph/graph.h"

namespace lockstep {

/// Note [Orthogonalization]
///
/// Newton-Schulz iterations, which move all singular values of a matrix towards 1 (Jordan et al.
/// 2024, "Muon: An optimizer for hidden layers in neural networks"): from X of Frobenius norm 1,
/// kIterations times
///   X = a X + (b A + c A A) X,  A = X X^T,  a, b, c = 3.4445, -4.7750, 2.0315
/// and in the end times kUpdateScale sqrt(max(rows, columns)), so that elements have the size of
/// AdamW's updates (Liu et al. 2025, "Muon is Scalable for LLM Training", equation 4). With more
/// rows than columns X^T X stands in the place of X X^T, from the other side, which is the same
/// and costs less. Three GEMMs an iteration, in fp32; a GPU rounds their factors to tf32, which has
/// more bits than the bf16 of the authors. Operators as any others: so memory is planned, shared
/// with activations, which are dead by then, and ranks agree on algorithms.
inline constexpr int kIterations = 5;
inline constexpr float kUpdateScale = 0.2f;

/// A program that reads the flat gradients as its parameters, of which the hidden matrices of
/// `training` have norm 1, and writes what they become into their places: bind it with gradients
/// for both. Nothing where there is no hidden matrix.
std::optional<Graph> orthogonalization(const Graph& training);

}  // namespace lockstep
