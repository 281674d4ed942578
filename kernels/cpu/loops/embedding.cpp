// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/embedding/embedding.h"

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

template <typename T>
void embedding(T* y,
               const std::int32_t* x,
               const float* table,
               const float* positions,
               const EmbeddingShape& s) {
  for (std::int64_t n = 0; n < s.samples; ++n)
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      T* const row = y + (n * s.tokens + t) * s.width;
      const float* const token = table + std::int64_t(x[n * s.tokens + t]) * s.width;
      if (positions == nullptr) {
        for_each_vec(s.width, [=](std::int64_t i, auto lanes) {
          store(row + i, load(token + i, lanes), lanes);
        });
        continue;
      }
      const float* const position = positions + t * s.width;
      for_each_vec(s.width, [=](std::int64_t i, auto lanes) {
        store(row + i, load(token + i, lanes) + load(position + i, lanes), lanes);
      });
    }
}

template <typename T>
void embedding_bwd_tokens(float* table_grad,
                          const std::int32_t* x,
                          const T* dy,
                          const EmbeddingShape& s) {
  for (std::int64_t r = 0; r < s.samples * s.tokens; ++r) {
    float* const grad = table_grad + std::int64_t(x[r]) * s.width;
    const T* const row = dy + r * s.width;
    for_each_vec(s.width, [=](std::int64_t i, auto lanes) {
      store(grad + i, load(grad + i, lanes) + load(row + i, lanes), lanes);
    });
  }
}

template <typename T>
void embedding_bwd_positions(float* positions_grad,
                             const T* dy,
                             const EmbeddingShape& s,
                             bool accumulate) {
  const std::int64_t sample = s.tokens * s.width;
  for_each_vec(sample, [=](std::int64_t i, auto lanes) {
    Vec sum = zero();
    for (std::int64_t n = 0; n < s.samples; ++n) sum = sum + load(dy + n * sample + i, lanes);
    if (accumulate) sum = load(positions_grad + i, lanes) + sum;
    store(positions_grad + i, sum, lanes);
  });
}

LOCKSTEP_INSTANTIATE(embedding);
LOCKSTEP_INSTANTIATE(embedding_bwd_tokens);
LOCKSTEP_INSTANTIATE(embedding_bwd_positions);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
