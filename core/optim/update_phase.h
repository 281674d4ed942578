// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Note [Phases of an update]
///
/// An update of the weights is one phase or several, each over all buckets before the next. Most
/// optimizers change every element by what lies at the same place of the flat arrays: one phase,
/// `update`. Those that work layer by layer first write a direction in place of the gradient, which
/// nothing reads after the update: the metrics and sums of running statistics have segments of
/// their own. Then they measure or transform whole tensors, also those that several buckets have a
/// part of, and the last phases move the weights along the direction. All of it is enqueued, on the
/// device alone. A step whose outcome is bad changes nothing but
/// directions and norms.
///
/// Tensors with a norm (FlatRange::tensor) are the hidden matrices (core/plan/hidden_matrices.h)
/// where the phases have `orthogonalize`, otherwise all that are neither a norm's nor a bias.
///
/// In phases of kernels, which backends have for each optimizer, an element depends on its own
/// values and on the norms of its tensor, or row, alone. A phase may come twice:
enum class UpdatePhase : std::uint8_t {
  update,            ///< kernel, all ranges: state, parameters
  tensor_update,     ///< the same, ranges of tensors with a norm alone
  update_others,     ///< the same, all other ranges
  direction,         ///< kernel, all ranges: state, and the direction
  tensor_direction,  ///< the same, ranges of tensors with a norm alone
  normalize,         ///< kernel, ranges of tensors with a norm: the direction, divided by its norm
  /// Kernel, rows of tensors with a norm, which are matrices (as_matrix()): state, and the
  /// direction, by the norm of its row.
  normalize_rows,
  /// Squared norms of the weights of each tensor with one, in the order of
  /// Backend::squared_norms().
  weight_norms,
  direction_norms,  ///< the same of directions; of gradients, unscaled, where there is none
  /// A program over all hidden matrices: see core/plan/orthogonalize.h.
  orthogonalize,
};

}  // namespace lockstep
