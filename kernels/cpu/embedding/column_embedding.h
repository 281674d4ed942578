// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Loops of the column embedding: see ops::ColumnEmbedding.
namespace lockstep::cpu {

/// Neighbouring values of every row of y: a vector of `table` [categories, width], or without a
/// table a copy of `width` features.
struct ColumnSource {
  const float* table = nullptr;
  std::int64_t feature = 0, offset = 0, width = 0, categories = 0;
};
struct ColumnRows {
  std::int64_t samples = 0;
  std::int64_t features = 0;  ///< values in a row of x
  std::int64_t values = 0;    ///< values in a row of y or dy
};

LOCKSTEP_STORED_LOOP(
    void,
    column_embedding,
    (T * y, const float* x, const ColumnSource* sources, int count, const ColumnRows& rows));
/// table_grad[x[n, feature], :] += dy[n, offset : offset + width]; `source` needs no table.
LOCKSTEP_STORED_LOOP(void,
                     column_embedding_bwd,
                     (float* table_grad,
                      const float* x,
                      const T* dy,
                      const ColumnSource& source,
                      const ColumnRows& rows));

}  // namespace lockstep::cpu
