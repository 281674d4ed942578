// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention.h"

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

/// Scores of one row to weights e^(s - top), zero from `visible` to `covered`.
LOCKSTEP_INLINE void softmax_row(float* s,
                                 std::int64_t visible,
                                 std::int64_t covered,
                                 float* sums,
                                 std::int64_t depth,
                                 bool first,
                                 float& top,
                                 float& sum_of_row) {
  Vec tops = broadcast(-kInfinity);
  for_each_vec(visible, [&](std::int64_t j, auto lanes) {
    tops = max(load_or(s + j, lanes, broadcast(-kInfinity)), tops);
  });
  float largest_here = largest(tops);
  float before = 0;
  if (!first) {
    largest_here = largest_here < top ? top : largest_here;
    const Vec factor = exp_nonpositive(broadcast(top) - broadcast(largest_here));
    before = sum_of_row * first_lane(factor);
    for_each_vec(depth, [=](std::int64_t d, auto lanes) {
      store(sums + d, load(sums + d, lanes) * factor, lanes);
    });
  }
  Vec sum = zero();
  for_each_vec(visible, [&](std::int64_t j, auto lanes) {
    const Vec e = exp_nonpositive(load(s + j, lanes) - broadcast(largest_here));
    store(s + j, e, lanes);
    sum = sum + keep_lanes(e, lanes);
  });
  clear(s + visible, covered - visible);
  top = largest_here;
  sum_of_row = before + total(sum);
}

LOCKSTEP_INLINE void finish_block(const AttentionArgs& a,
                                  const HeadOf& head,
                                  std::int64_t query,
                                  std::int64_t rows,
                                  RowState& state) {
  const std::int64_t depth = a.shape.depth;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Vec inverse = broadcast((a.drops ? a.stream.scale : 1.0f) / state.total[r]);
    const float* const sums = a.sums + r * depth;
    float* const y = a.y + head.output(query + r);
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
void query_block(const AttentionArgs& a,
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
    for_each_part(
        rows, keys, diagonal, [&](std::int64_t r, std::int64_t count, std::int64_t covered) {
          float* const scores = a.scores + r * kAttentionRow;
          small_gemm({.m = count,
                      .n = covered,
                      .k = depth,
                      .a = a.queries + r * depth,
                      .a_row = depth,
                      .b = columns,
                      .b_row = kAttentionRow,
                      .c = scores,
                      .c_row = kAttentionRow},
                     false);
          for (std::int64_t i = 0; i < count; ++i) {
            float* const s = scores + i * kAttentionRow;
            const std::int64_t visible = diagonal ? r + i + 1 : covered;
            softmax_row(s,
                        visible,
                        covered,
                        a.sums + (r + i) * depth,
                        depth,
                        key == 0,
                        state.top[r + i],
                        state.total[r + i]);
            if (a.drops) drop_row(s, a.stream, head, query + r + i, key, visible);
          }
          small_gemm({.m = count,
                      .n = depth,
                      .k = covered,
                      .a = scores,
                      .a_row = kAttentionRow,
                      .b = a.values + key * depth,
                      .b_row = depth,
                      .c = a.sums + r * depth,
                      .c_row = depth},
                     key > 0);
        });
  }
  finish_block(a, head, query, rows, state);
}

}  // namespace

void attention(const AttentionArgs& a) {
  const std::int64_t tokens = a.shape.tokens, depth = a.shape.depth;
  for (std::int64_t n = 0; n < a.shape.samples; ++n)
    for (std::int64_t h = 0; h < a.shape.heads; ++h) {
      const HeadOf head(a.shape, n, h);
      transpose_blocks(a.keys, a.qkv + head.key(0), head.input_row, tokens, depth);
      copy_rows(a.values, a.qkv + head.value(0), head.input_row, tokens, depth, 1.0f);
      for (std::int64_t query = 0; query < tokens; query += kAttentionBlock)
        query_block(a, head, query, at_most(kAttentionBlock, tokens - query));
    }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
