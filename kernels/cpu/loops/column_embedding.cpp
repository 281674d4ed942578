// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/embedding/column_embedding.h"

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// The category that `index` says; -1 where it is none of them, or NaN.
LOCKSTEP_INLINE std::int64_t category_of(float index, std::int64_t categories) {
  return index >= 0.0f && index < float(categories) ? std::int64_t(index) : -1;
}

}  // namespace

template <typename T>
void column_embedding(
    T* y, const float* x, const ColumnSource* sources, int count, const ColumnRows& rows) {
  for (std::int64_t n = 0; n < rows.samples; ++n) {
    const float* const features = x + n * rows.features;
    T* const values = y + n * rows.values;
    for (int s = 0; s < count; ++s) {
      const ColumnSource& source = sources[s];
      const float* from = features + source.feature;
      T* const to = values + source.offset;
      if (source.table != nullptr) {
        const std::int64_t category = category_of(*from, source.categories);
        from = category < 0 ? nullptr : source.table + category * source.width;
      }
      if (from != nullptr)
        for_each_vec(source.width, [=](std::int64_t i, auto lanes) {
          store(to + i, load(from + i, lanes), lanes);
        });
      else
        for_each_vec(source.width, [=](std::int64_t i, auto lanes) {
          store(to + i, broadcast(__builtin_nanf("")), lanes);
        });
    }
  }
}

template <typename T>
void column_embedding_bwd(float* table_grad,
                          const float* x,
                          const T* dy,
                          const ColumnSource& source,
                          const ColumnRows& rows) {
  for (std::int64_t n = 0; n < rows.samples; ++n) {
    const std::int64_t category =
        category_of(x[n * rows.features + source.feature], source.categories);
    if (category < 0) continue;
    float* const grad = table_grad + category * source.width;
    const T* const row = dy + n * rows.values + source.offset;
    for_each_vec(source.width, [=](std::int64_t i, auto lanes) {
      store(grad + i, load(grad + i, lanes) + load(row + i, lanes), lanes);
    });
  }
}

LOCKSTEP_INSTANTIATE(column_embedding);
LOCKSTEP_INSTANTIATE(column_embedding_bwd);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
