// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/loops/simd.h"

/// Transposition of kLanes short rows: column k of rows [kLanes, K] as one vector.
namespace lockstep::cpu::LOCKSTEP_ISA {

#ifdef __AVX512F__

namespace {

/// Where the elements of `K` vectors of rows go: element m of the flat rows is (m / K, m % K).
template <int K>
struct ColumnTable {
  alignas(64) std::int32_t element[K][kLanes] = {};  // [column][row]: its flat position
  alignas(64) std::int32_t row[K][kLanes] = {};      // [vector][lane]: row of that flat element
  Mask from_vector[K][K] = {};                       // [column][vector]: rows that lie in it
  Mask from_column[K][K] = {};                       // [vector][column]: lanes that belong to it

  constexpr ColumnTable() {
    for (int m = 0; m < K * kLanes; ++m) {
      const int vector = m / kLanes, lane = m % kLanes, r = m / K, column = m % K;
      element[column][r] = m;
      row[vector][lane] = r;
      from_vector[column][vector] = Mask(from_vector[column][vector] | (1u << r));
      from_column[vector][column] = Mask(from_column[vector][column] | (1u << lane));
    }
  }
};

template <int K>
constexpr ColumnTable<K> kColumnTable;

}  // namespace

/// Reads `count` <= kLanes rows; the others are zero.
template <int K, typename T>
LOCKSTEP_INLINE void load_columns(const T* from, std::int64_t count, Vec (&columns)[K]) {
  constexpr const ColumnTable<K>& table = kColumnTable<K>;
  Vec rows[K];
#pragma GCC unroll 16
  for (int i = 0; i < K; ++i) {
    const std::int64_t left = count * K - i * kLanes;
    rows[i] = left >= kLanes ? load(from + i * kLanes)
              : left > 0     ? load(from + i * kLanes, first_lanes(left))
                             : zero();
  }
#pragma GCC unroll 16
  for (int k = 0; k < K; ++k) {
    const __m512i index = _mm512_load_si512(table.element[k]);
    Vec column = _mm512_permutexvar_ps(index, rows[0]);
#pragma GCC unroll 16
    for (int i = 1; i < K; ++i)
      column = _mm512_mask_permutexvar_ps(column, table.from_vector[k][i], index, rows[i]);
    columns[k] = column;
  }
}

/// Writes `count` <= kLanes rows.
template <int K, typename T>
LOCKSTEP_INLINE void store_columns(T* to, std::int64_t count, const Vec (&columns)[K]) {
  constexpr const ColumnTable<K>& table = kColumnTable<K>;
#pragma GCC unroll 16
  for (int i = 0; i < K; ++i) {
    const __m512i index = _mm512_load_si512(table.row[i]);
    Vec rows = _mm512_permutexvar_ps(index, columns[0]);
#pragma GCC unroll 16
    for (int k = 1; k < K; ++k)
      rows = _mm512_mask_permutexvar_ps(rows, table.from_column[i][k], index, columns[k]);
    const std::int64_t left = count * K - i * kLanes;
    if (left >= kLanes)
      store(to + i * kLanes, rows);
    else if (left > 0)
      store(to + i * kLanes, rows, first_lanes(left));
  }
}

#else

/// Reads `count` <= kLanes rows; the others are zero.
template <int K, typename T>
LOCKSTEP_INLINE void load_columns(const T* from, std::int64_t count, Vec (&columns)[K]) {
  float transposed[K][kLanes] = {};
  for (std::int64_t row = 0; row < count; ++row)
    for (int k = 0; k < K; ++k) transposed[k][row] = widened(from[row * K + k]);
  for (int k = 0; k < K; ++k) columns[k] = load(transposed[k]);
}

/// Writes `count` <= kLanes rows.
template <int K, typename T>
LOCKSTEP_INLINE void store_columns(T* to, std::int64_t count, const Vec (&columns)[K]) {
  float transposed[K][kLanes];
  for (int k = 0; k < K; ++k) store(transposed[k], columns[k]);
  for (std::int64_t row = 0; row < count; ++row)
    for (int k = 0; k < K; ++k) store_one(to + row * K + k, transposed[k][row]);
}

#endif

}  // namespace lockstep::cpu::LOCKSTEP_ISA
