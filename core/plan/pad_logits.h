// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

namespace lockstep {

/// Over the forward graph: a vocabulary that no eight divides, as GPT-2's 50257, would have rows of
/// bf16 logits begin anywhere, where a GPU's matrix units want multiples of 16 bytes. So the linear
/// that makes logits for softmax_cross_entropy alone writes rows of the next multiple of `multiple`
/// elements, with zeros after the classes; loss and gradients know how many count. Weights, their
/// gradients and results stay as they are. Below 1024 classes, as the 65 characters of a small
/// text, the next multiple of eight is enough, seven numbers a row at most; from there on multiples
/// of 64 are 6% of the logits' memory at most. A `multiple` of 1, as processors have it, changes
/// nothing. Returns what `loss` has become; adds a note to the graph.
ValueId pad_logits(Graph& graph, ValueId loss, std::int64_t multiple);

}  // namespace lockstep
