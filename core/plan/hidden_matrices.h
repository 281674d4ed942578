// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace lockstep {

/// Parameters that are matrices between hidden layers, by number in declaration order, from how a
/// training graph uses them: trained weights of fully connected layers and convolutions. Not so
/// the weights of layers that no other such layer follows, which are heads; what an embedding
/// reads, as weights tied to a head; vectors; and whatever another operator reads. The first layer
/// is one of them.
std::vector<int> hidden_matrices(const Graph& training);

/// Weights and biases of heads: of fully connected layers and convolutions that no other such layer
/// follows. In declaration order; with an embedding's table where it is tied to a head.
std::vector<int> head_parameters(const Graph& training);

/// Rows of such a parameter: its outputs, stored first. All other extents are its columns, for a
/// convolution kernel_h * kernel_w * in / groups.
Shape as_matrix(const Shape& parameter);

}  // namespace lockstep
