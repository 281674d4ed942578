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

/// Sums of so many products take long enough for C to be fetched meanwhile.
constexpr std::int64_t kPrefetchedDepth = 64;
/// Steps of k from asking for elements of A and B to using them: some 100 ns.
constexpr std::int64_t kAhead = 16;

struct WideVector {
  using Type = Vec;
  using Lanes = Mask;
  static constexpr int kCount = kLanes;
  static constexpr bool kHasWholeStrips = true;
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
  static constexpr bool kHasWholeStrips = false;  // not worth the code
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

template <typename Vector, int width, typename Lanes>
LOCKSTEP_INLINE StripRow<Vector, width> load_row(const float* from, Lanes lanes) {
  StripRow<Vector, width> row;
  if constexpr (width == 2) row.v[0] = Vector::load_lanes(from, AllLanes{});
  row.v[width - 1] = Vector::load_lanes(from + (width - 1) * Vector::kCount, lanes);
  return row;
}

template <typename Vector, int width, typename Lanes>
LOCKSTEP_INLINE void store_row(float* to, const StripRow<Vector, width>& row, Lanes lanes) {
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
  std::int64_t column;           // the strip's first one
  const float* b;                // B(0, column)
  typename Vector::Lanes lanes;  // of the last vector
  bool accumulate;
};

/// Lanes of the last vector of a strip; of a whole one those need no mask.
template <bool whole, typename Vector>
LOCKSTEP_INLINE auto lanes_of(const Strip<Vector>& strip) {
  if constexpr (whole)
    return AllLanes{};
  else
    return strip.lanes;
}

/// Rows [row, row + rows) of a strip. Every loop over rows is unrolled: sums that are indexed by a
/// variable would live in memory.
template <typename Vector, int width, bool whole, int rows>
void block(const Strip<Vector>& strip, std::int64_t row) {
  using Row = StripRow<Vector, width>;
  const SmallGemm& g = strip.g;
  const auto lanes = lanes_of<whole>(strip);
  float* const c = g.c + row * g.c_row + strip.column;
  // C mostly lies far away; it arrives while the products are summed.
  if (g.k >= kPrefetchedDepth) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      __builtin_prefetch(c + r * g.c_row, 1);
      if constexpr (width == 2) __builtin_prefetch(c + r * g.c_row + Vector::kCount, 1);
    }
  }

  Row sum[rows];
  const Row start =
      g.bias ? load_row<Vector, width>(g.bias + strip.column, lanes) : zero_row<Vector, width>();
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) sum[r] = start;

  const float* a = g.a + row * g.a_row;
  const float* b = strip.b;
  const std::int64_t a_row = g.a_row, a_col = g.a_col, b_row = g.b_row;
  for (std::int64_t k = g.k; k > 0; --k, a += a_col, b += b_row) {
    const Row b_k = load_row<Vector, width>(b, lanes);
    // Strided rows of B, and columns of A, come in time only if they are asked for.
    if constexpr (width == 2) {
      __builtin_prefetch(b + kAhead * b_row);
      __builtin_prefetch(b + kAhead * b_row + Vector::kCount);
      __builtin_prefetch(a + kAhead * a_col);
      __builtin_prefetch(a + kAhead * a_col + (rows - 1));
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
      add_product<Vector, width>(sum[r], Vector::splat(a[r * a_row]), b_k);
  }

  if (strip.accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
      add<Vector, width>(sum[r], load_row<Vector, width>(c + r * g.c_row, lanes));
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) store_row<Vector, width>(c + r * g.c_row, sum[r], lanes);
}

template <typename Vector, int width, bool whole, int rows = kMaxRows>
LOCKSTEP_INLINE void last_block(const Strip<Vector>& strip, std::int64_t row, std::int64_t left) {
  if constexpr (rows > 0) {
    if (left == rows) return block<Vector, width, whole, rows>(strip, row);
    last_block<Vector, width, whole, rows - 1>(strip, row, left);
  }
}

template <typename Vector, int width, bool whole>
LOCKSTEP_INLINE void run_strip(const Strip<Vector>& strip, std::int64_t row, std::int64_t left) {
  if (left >= kMaxRows)
    block<Vector, width, whole, kMaxRows>(strip, row);
  else
    last_block<Vector, width, whole>(strip, row, left);
}

/// Columns [column, column + columns) of the first `left` rows from `row` on, kMaxRows at most.
template <typename Vector, int width>
LOCKSTEP_INLINE void run_columns(const SmallGemm& g,
                                 std::int64_t column,
                                 std::int64_t columns,
                                 std::int64_t row,
                                 std::int64_t left,
                                 bool accumulate) {
  const float* const b = g.b + column / kPanel * g.b_panel + column % kPanel;
  const std::int64_t in_last = columns - (width - 1) * Vector::kCount;
  const Strip<Vector> strip{g, column, b, Vector::first(in_last), accumulate};
  if constexpr (Vector::kHasWholeStrips)
    if (in_last == Vector::kCount) return run_strip<Vector, width, true>(strip, row, left);
  run_strip<Vector, width, false>(strip, row, left);
}

}  // namespace

// Rows outermost: B comes from the L2 cache again and again, but A and C, which lie further away,
// come and go once.
void small_gemm(const SmallGemm& g, bool accumulate) {
  constexpr std::int64_t kStrip = 2 * kLanes;
  static_assert(kPanel % kStrip == 0);
  for (std::int64_t row = 0; row < g.m; row += kMaxRows) {
    const std::int64_t left = at_most(g.m - row, kMaxRows);
    for (std::int64_t column = 0; column < g.n; column += kStrip) {
      const std::int64_t columns = at_most(g.n - column, kStrip);
      if (columns > kLanes)
        run_columns<WideVector, 2>(g, column, columns, row, left, accumulate);
      else if (columns > NarrowVector::kCount)
        run_columns<WideVector, 1>(g, column, columns, row, left, accumulate);
      else
        run_columns<NarrowVector, 1>(g, column, columns, row, left, accumulate);
    }
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
