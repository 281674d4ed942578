// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

namespace lockstep {

/// The element type that a program computes in.
enum class Precision : std::uint8_t { fp32, tf32, bf16 };

/// "fp32", "tf32" or "bf16". Throws ConfigError.
Precision parse_precision(const std::string& text);
std::string_view name_of(Precision precision);

/// Makes a forward graph compute in bf16: activations become bf16 where they enter (the output of
/// Normalize, Embedding and ColumnEmbedding, a cast after an f32 input `input` for all others that
/// read it), and every operator after follows
/// its input. Parameters, statistics, sums over samples and losses stay fp32; kernels pack bf16
/// copies of weights. Returns what `loss` has become.
ValueId lower_to_bf16(Graph& graph, ValueId loss, std::string_view input);

}  // namespace lockstep
