// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "lockstep/precision.h"

namespace lockstep {

/// Makes a forward graph compute in bf16: activations become bf16 where they enter (the output of
/// Normalize, Embedding and ColumnEmbedding, a cast after an f32 input `input` for all others that
/// read it), and every operator after follows
/// its input. Parameters, statistics, sums over samples and losses stay fp32; kernels pack bf16
/// copies of weights. Returns what `loss` has become.
ValueId lower_to_bf16(Graph& graph, ValueId loss, std::string_view input);

/// Whether each parameter, in declaration order, is trained and reaches kernels rounded to bf16
/// alone: nothing reads it but fully connected layers and convolutions of bf16 activations, forward
/// and backward, and those as their weight. Kernels of these, on every device, compute with the
/// same bits from the weight and from the weight rounded.
std::vector<bool> bf16_weights(const Graph& graph);

}  // namespace lockstep
