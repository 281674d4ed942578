// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Loops of the embedding: see ops::Embedding.
namespace lockstep::cpu {

struct EmbeddingShape {
  std::int64_t samples = 0, tokens = 0, width = 0;
};

/// `positions` may be null.
LOCKSTEP_STORED_LOOP(void,
                     embedding,
                     (T * y,
                      const std::int32_t* x,
                      const float* table,
                      const float* positions,
                      const EmbeddingShape& shape));
/// table_grad[x[n, t], :] += dy[n, t, :]
LOCKSTEP_STORED_LOOP(
    void,
    embedding_bwd_tokens,
    (float* table_grad, const std::int32_t* x, const T* dy, const EmbeddingShape& shape));
/// positions_grad[t, :] (=|+=) sum over n of dy[n, t, :]
LOCKSTEP_STORED_LOOP(
    void,
    embedding_bwd_positions,
    (float* positions_grad, const T* dy, const EmbeddingShape& shape, bool accumulate));

}  // namespace lockstep::cpu
