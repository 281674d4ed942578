// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/small_gemm.h"

#include "kernels/cpu/loops/simd.h"

// C is cut into strips one or two vectors wide, a strip into blocks of rows whose sums stay in
// registers: a step of k costs a block one load of B a vector and one broadcast of A a row, so a
// block of 12 x 2 vectors does 24 multiply-adds for 14 loads.
namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

#ifdef __AVX512F__
constexpr int kMaxRows = 12;  // 24 sums, 2 vectors of B and a broadcast in 32 registers
#else
constexpr int kMaxRows = 6;  // 12 sums, 2 vectors of B and a broadcast in 16 registers
#endif

struct WideVector {
  using Type = Vec;
  using Lanes = Mask;
  static constexpr int kCount = kLanes;
  LOCKSTEP_INLINE static Lanes first(std::int64_t count) { return first_lanes(count); }
  LOCKSTEP_INLINE static Type splat(float value) { return broadcast(value); }
  template <typename Which>
  LOCKSTEP_INLINE static Type load_lanes(const float* from, Which lanes) {
    return load(from, lanes);
  }
  template <typename Which>
  LOCKSTEP_INLINE static void store_lanes(float* to, Type v, Which lanes) {
    store(to, v, lanes);
  }
  LOCKSTEP_INLINE static Type multiply_add(Type a, Type b, Type c) { return fma(a, b, c); }
};

#ifdef __AVX512F__
// Zen 4 does two half-wide multiply-adds in the time of a wide one, so that strips of at most eight
// columns go twice as fast this way.
struct NarrowVector {
  using Type = __m256;
  using Lanes = __mmask8;
  static constexpr int kCount = 8;
  LOCKSTEP_INLINE static Lanes first(std::int64_t count) { return Lanes((1u << count) - 1u); }
  LOCKSTEP_INLINE static Type splat(float value) { return _mm256_set1_ps(value); }
  LOCKSTEP_INLINE static Type load_lanes(const float* from, Lanes lanes) {
    return _mm256_maskz_loadu_ps(lanes, from);
  }
  LOCKSTEP_INLINE static void store_lanes(float* to, Type v, Lanes lanes) {
    _mm256_mask_storeu_ps(to, lanes, v);
  }
  LOCKSTEP_INLINE static Type multiply_add(Type a, Type b, Type c) {
    return _mm256_fmadd_ps(a, b, c);
  }
};
#else
using NarrowVector = WideVector;
#endif

/// A row of a strip: `width` vectors, the last of which has only `lanes`.
template <typename Vector, int width>
struct StripRow {
  typename Vector::Type v[width];
};

template <typename Vector, int width>
LOCKSTEP_INLINE StripRow<Vector, width> load_row(const float* from, typename Vector::Lanes lanes) {
  StripRow<Vector, width> row;
  if constexpr (width == 2) row.v[0] = Vector::load_lanes(from, AllLanes{});
  row.v[width - 1] = Vector::load_lanes(from + (width - 1) * Vector::kCount, lanes);
  return row;
}

template <typename Vector, int width>
LOCKSTEP_INLINE void store_row(float* to,
                               const StripRow<Vector, width>& row,
                               typename Vector::Lanes lanes) {
  if constexpr (width == 2) Vector::store_lanes(to, row.v[0], AllLanes{});
  Vector::store_lanes(to + (width - 1) * Vector::kCount, row.v[width - 1], lanes);
}

template <typename Vector, int width>
LOCKSTEP_INLINE StripRow<Vector, width> zero_row() {
  StripRow<Vector, width> row;
  row.v[0] = Vector::splat(0.0f);
  row.v[width - 1] = row.v[0];
  return row;
}

template <typename Vector, int width>
LOCKSTEP_INLINE void add_product(StripRow<Vector, width>& sum,
                                 typename Vector::Type a,
                                 const StripRow<Vector, width>& b) {
  sum.v[0] = Vector::multiply_add(a, b.v[0], sum.v[0]);
  if constexpr (width == 2) sum.v[1] = Vector::multiply_add(a, b.v[1], sum.v[1]);
}

template <typename Vector, int width>
LOCKSTEP_INLINE void add(StripRow<Vector, width>& sum, const StripRow<Vector, width>& old) {
  sum.v[0] = old.v[0] + sum.v[0];
  if constexpr (width == 2) sum.v[1] = old.v[1] + sum.v[1];
}

template <typename Vector>
struct Strip {
  const SmallGemm& g;
  std::int64_t column;  // the strip's first one
  typename Vector::Lanes lanes;
  bool accumulate;
};

/// Rows [row, row + rows) of a strip. Every loop over rows is unrolled: sums that are indexed by a
/// variable would live in memory.
template <typename Vector, int width, int rows>
void block(const Strip<Vector>& strip, std::int64_t row) {
  using Row = StripRow<Vector, width>;
  const SmallGemm& g = strip.g;
  const auto lanes = strip.lanes;
  Row sum[rows];
  const Row start =
      g.bias ? load_row<Vector, width>(g.bias + strip.column, lanes) : zero_row<Vector, width>();
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) sum[r] = start;

  const float* a = g.a + row * g.a_row;
  const float* b = g.b + strip.column;
  const std::int64_t a_row = g.a_row, a_col = g.a_col, b_row = g.b_row;
  for (std::int64_t k = g.k; k > 0; --k, a += a_col, b += b_row) {
    const Row b_k = load_row<Vector, width>(b, lanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
      add_product<Vector, width>(sum[r], Vector::splat(a[r * a_row]), b_k);
  }

  float* c = g.c + row * g.c_row + strip.column;
  if (strip.accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
      add<Vector, width>(sum[r], load_row<Vector, width>(c + r * g.c_row, lanes));
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) store_row<Vector, width>(c + r * g.c_row, sum[r], lanes);
}

template <typename Vector, int width, int rows = kMaxRows>
LOCKSTEP_INLINE void last_block(const Strip<Vector>& strip, std::int64_t row, std::int64_t left) {
  if constexpr (rows > 0) {
    if (left == rows) return block<Vector, width, rows>(strip, row);
    last_block<Vector, width, rows - 1>(strip, row, left);
  }
}

template <typename Vector, int width>
void run_strip(const SmallGemm& g, std::int64_t column, std::int64_t columns, bool accumulate) {
  const Strip<Vector> strip{
      g, column, Vector::first(columns - (width - 1) * Vector::kCount), accumulate};
  std::int64_t row = 0;
  for (; row + kMaxRows <= g.m; row += kMaxRows) block<Vector, width, kMaxRows>(strip, row);
  last_block<Vector, width>(strip, row, g.m - row);
}

}  // namespace

void small_gemm(const SmallGemm& g, bool accumulate) {
  constexpr std::int64_t kStrip = 2 * kLanes;
  for (std::int64_t column = 0; column < g.n; column += kStrip) {
    const std::int64_t columns = at_most(g.n - column, kStrip);
    if (columns > kLanes)
      run_strip<WideVector, 2>(g, column, columns, accumulate);
    else if (columns > NarrowVector::kCount)
      run_strip<WideVector, 1>(g, column, columns, accumulate);
    else
      run_strip<NarrowVector, 1>(g, column, columns, accumulate);
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
