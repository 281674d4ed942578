// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention.h"

#include "kernels/cpu/loops/attention_parts.h"

// Of one head, blocks of queries meet blocks of keys: scores are a product of small matrices, the
// softmax goes over their rows, and a second product adds to the sums of the block. With several
// blocks of keys the softmax is online: sums are scaled down where a row's maximum grows.
namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

struct RowState {
  float top[kAttentionBlock];    // largest score so far
  float total[kAttentionBlock];  // sum of e^(score - top)
};

/// Rows are worked on four at a time; there is memory for the rows that a last group lacks, and
/// its content does not matter.
constexpr int kGroup = 4;

/// Largest scores of the rows of a part. Each step goes over all rows before the next one: within
/// a row they wait for each other.
template <int vectors>
LOCKSTEP_INLINE void find_tops(const float* scores, const ScorePart& part, float* tops) {
  const Vec hidden = broadcast(-kInfinity);
  for (std::int64_t i = 0; i < part.count; i += kGroup) {
    Vec top[kGroup];
#pragma GCC unroll 4
    for (int r = 0; r < kGroup; ++r) {
      const RowMask<vectors> mask(part.visible(i + r));
      const float* const row = scores + (i + r) * kAttentionRow;
      top[r] = mask.apply(0, load(row), hidden);
#pragma GCC unroll 12
      for (int j = 1; j < vectors; ++j)
        top[r] = max(mask.apply(j, load(row + j * kLanes), hidden), top[r]);
    }
    _mm_storeu_ps(tops + i, largest_of_four(top));
  }
}

/// Scores to e^(s - top), zero for keys that a row does not see, and adds each row's sum.
template <int vectors>
LOCKSTEP_INLINE void exponentiate(float* scores,
                                  const ScorePart& part,
                                  const float* tops,
                                  float* totals) {
  const Vec hidden = broadcast(-kInfinity);
  for (std::int64_t i = 0; i < part.count; i += kGroup) {
    Vec sum[kGroup];
#pragma GCC unroll 4
    for (int r = 0; r < kGroup; ++r) {
      const RowMask<vectors> mask(part.visible(i + r));
      float* const row = scores + (i + r) * kAttentionRow;
      const Vec top = broadcast(tops[i + r]);
      sum[r] = zero();
#pragma GCC unroll 12
      for (int j = 0; j < vectors; ++j) {
        const Vec e = exp_nonpositive(mask.apply(j, load(row + j * kLanes), hidden) - top);
        store(row + j * kLanes, e);
        sum[r] = sum[r] + e;
      }
    }
    _mm_storeu_ps(totals + i, _mm_loadu_ps(totals + i) + total_of_four(sum));
  }
}

/// Takes the larger of old and new tops and scales down the sums that belong to smaller ones.
LOCKSTEP_INLINE void raise_tops(const float* old,
                                std::int64_t count,
                                float* tops,
                                float* totals,
                                float* sums,
                                std::int64_t depth) {
  float factors[kAttentionBlock];
  for_each_vec(count, [&](std::int64_t i, auto lanes) {
    const Vec before = load(old + i, lanes), top = max(load(tops + i, lanes), before);
    const Vec factor = exp_nonpositive(before - top);
    store(tops + i, top, lanes);
    store(factors + i, factor, lanes);
    store(totals + i, load(totals + i, lanes) * factor, lanes);
  });
  for (std::int64_t i = 0; i < count; ++i) {
    const Vec factor = broadcast(factors[i]);
    for_each_vec(depth, [=](std::int64_t d, auto lanes) {
      store(sums + i * depth + d, load(sums + i * depth + d, lanes) * factor, lanes);
    });
  }
}

template <int vectors>
void softmax_part(float* scores,
                  const ScorePart& part,
                  bool first,
                  RowState& state,
                  float* sums,
                  std::int64_t depth) {
  float *const tops = state.top + part.row, *const totals = state.total + part.row;
  if (first) {
    find_tops<vectors>(scores, part, tops);
    for (std::int64_t i = 0; i < part.count; i += kGroup) _mm_storeu_ps(totals + i, __m128{});
  } else {
    float old[kAttentionBlock];
    for (std::int64_t i = 0; i < part.count; ++i) old[i] = tops[i];
    find_tops<vectors>(scores, part, tops);
    raise_tops(old, part.count, tops, totals, sums, depth);
  }
  exponentiate<vectors>(scores, part, tops, totals);
}

template <typename T>
LOCKSTEP_INLINE void finish_block(const AttentionArgs<T>& a,
                                  const HeadOf& head,
                                  std::int64_t query,
                                  std::int64_t rows,
                                  RowState& state) {
  const std::int64_t depth = a.shape.depth;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Vec inverse = broadcast((a.drops ? a.stream.scale : 1.0f) / state.total[r]);
    const float* const sums = a.sums + r * depth;
    T* const y = a.y + head.output(query + r);
    for_each_vec(depth, [=](std::int64_t d, auto lanes) {
      store(y + d, load(sums + d, lanes) * inverse, lanes);
    });
  }
  float* const lse = a.lse + head.row(query);
  for_each_vec(rows, [&](std::int64_t r, auto lanes) {
    const Vec sums = load_or(state.total + r, lanes, broadcast(1.0f));
    store(lse + r, load(state.top + r, lanes) + log_from_one(sums), lanes);
  });
}

/// Queries [query, query + rows) of one head.
template <typename T>
void query_block(const AttentionArgs<T>& a,
                 const HeadOf& head,
                 std::int64_t query,
                 std::int64_t rows) {
  const std::int64_t depth = a.shape.depth;
  RowState state;
  copy_rows(a.queries, a.qkv + head.query(query), head.input_row, rows, depth, head.scale);
  const std::int64_t key_end = a.shape.causal ? query + rows : a.shape.tokens;
  for (std::int64_t key = 0; key < key_end; key += kAttentionBlock) {
    const std::int64_t keys = at_most(kAttentionBlock, a.shape.tokens - key);
    const bool diagonal = a.shape.causal && key == query;
    const float* const columns = a.keys + key / kAttentionBlock * depth * kAttentionRow;
    for_each_part(rows, keys, diagonal, [&](const ScorePart& part) {
      float* const scores = a.scores;
      float* const sums = a.sums + part.row * depth;
      small_gemm({.m = part.count,
                  .n = part.padded(),
                  .k = depth,
                  .a = a.queries + part.row * depth,
                  .a_row = depth,
                  .b = columns,
                  .b_row = kAttentionRow,
                  .c = scores,
                  .c_row = kAttentionRow},
                 false);
      with_vectors(part.vectors(), [&](auto vectors) {
        softmax_part<vectors.value>(scores, part, key == 0, state, sums, depth);
      });
      if (a.drops) drop_part(scores, a.stream, head, part, query, key);
      small_gemm({.m = part.count,
                  .n = depth,
                  .k = part.covered,
                  .a = scores,
                  .a_row = kAttentionRow,
                  .b = a.values + key * depth,
                  .b_row = depth,
                  .c = sums,
                  .c_row = depth},
                 key > 0);
    });
  }
  finish_block(a, head, query, rows, state);
}

}  // namespace

template <typename T>
void attention(const AttentionArgs<T>& a) {
  const std::int64_t tokens = a.shape.tokens, depth = a.shape.depth;
  for (std::int64_t n = 0; n < a.shape.samples; ++n)
    for (std::int64_t h = 0; h < a.shape.heads; ++h) {
      const HeadOf head(a.shape, n, h);
      // Of a group's heads the first packs the keys and values that all share.
      if (h % (a.shape.heads / a.shape.kv_heads) == 0) {
        transpose_blocks(a.keys, a.qkv + head.key(0), head.input_row, tokens, depth, a.values);
        copy_rows(a.values, a.qkv + head.value(0), head.input_row, tokens, depth, 1.0f);
      }
      for (std::int64_t query = 0; query < tokens; query += kAttentionBlock)
        query_block(a, head, query, at_most(kAttentionBlock, tokens - query));
    }
}

LOCKSTEP_INSTANTIATE(attention);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
