// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/graph/graph.h"
#include "lockstep/precision.h"

namespace lockstep {

/// Makes a forward graph compute in bf16: activations become bf16 where they enter (the output of
/// Normalize, Embedding and ColumnEmbedding, a cast after an f32 input `input` for all others that
/// read it), and every operator after follows
/// its input. Parameters, statistics, sums over samples and losses stay fp32; kernels pack bf16
/// copies of weights. Returns what `loss` has become.
ValueId lower_to_bf16(Graph& graph, ValueId loss, std::string_view input);

}  // namespace lockstep
