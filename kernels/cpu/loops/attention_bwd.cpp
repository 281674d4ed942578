// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention.h"
#include "kernels/cpu/loops/attention_parts.h"

// Blocks of keys meet blocks of queries, keys outermost: their gradients and those of the values
// stay in the caches, while the sums of the queries' gradients come and go. Queries and keys are
// packed with the factor 1 / sqrt(D) in them, so that no score has to be scaled.
namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Scores and products dy . v of one row to the weights after dropout and the scores' gradients,
/// zero from `visible` to `covered`.
LOCKSTEP_INLINE void gradient_row(const AttentionBwdArgs& a,
                                  const HeadOf& head,
                                  float* s,
                                  float* ds,
                                  std::int64_t query,
                                  std::int64_t key,
                                  std::int64_t visible,
                                  std::int64_t covered) {
  const Vec lse = broadcast(a.lse[head.row(query)]), delta = broadcast(a.deltas[query]);
  if (!a.drops) {
    for_each_vec(visible, [=](std::int64_t j, auto lanes) {
      const Vec p = exp_nonpositive(load(s + j, lanes) - lse);
      store(s + j, p, lanes);
      store(ds + j, p * (load(ds + j, lanes) - delta), lanes);
    });
  } else {
    const DropWords words(a.stream, head, query, key, visible);
    const Vec scale = broadcast(a.stream.scale);
    for_each_vec(visible, [&](std::int64_t j, auto lanes) {
      const VecI kept = words.kept(j, a.stream);
      const Vec p = exp_nonpositive(load(s + j, lanes) - lse);
      store(s + j, kept ? p * scale : zero(), lanes);
      const Vec dp = kept ? load(ds + j, lanes) * scale : zero();
      store(ds + j, p * (dp - delta), lanes);
    });
  }
  clear(s + visible, covered - visible);
  clear(ds + visible, covered - visible);
}

struct Block {
  std::int64_t query, rows, key, keys;
  bool diagonal;
};

/// Weights and gradients of the scores of one block, and what they add to dq.
LOCKSTEP_INLINE void scores_of(const AttentionBwdArgs& a, const HeadOf& head, const Block& b) {
  const std::int64_t depth = a.shape.depth;
  const std::int64_t columns = b.key / kAttentionBlock * depth * kAttentionRow;
  const auto part = [&](std::int64_t r, std::int64_t count, std::int64_t covered) {
    float *const s = a.scores + r * kAttentionRow, *const ds = a.dscores + r * kAttentionRow;
    SmallGemm product{.m = count,
                      .n = covered,
                      .k = depth,
                      .a = a.queries + (b.query + r) * depth,
                      .a_row = depth,
                      .b = a.columns_k + columns,
                      .b_row = kAttentionRow,
                      .c = s,
                      .c_row = kAttentionRow};
    small_gemm(product, false);
    product.a = a.gradients + (b.query + r) * depth;
    product.b = a.columns_v + columns;
    product.c = ds;
    small_gemm(product, false);
    for (std::int64_t i = 0; i < count; ++i)
      gradient_row(a,
                   head,
                   s + i * kAttentionRow,
                   ds + i * kAttentionRow,
                   b.query + r + i,
                   b.key,
                   b.diagonal ? r + i + 1 : covered,
                   covered);
    small_gemm({.m = count,
                .n = depth,
                .k = covered,
                .a = ds,
                .a_row = kAttentionRow,
                .b = a.keys + b.key * depth,
                .b_row = depth,
                .c = a.dq + (b.query + r) * depth,
                .c_row = depth},
               b.key > 0);
  };
  for_each_part(b.rows, b.keys, b.diagonal, part);
}

/// What one block adds to dk and dv: products with the transposed weights.
LOCKSTEP_INLINE void add_to_keys(const AttentionBwdArgs& a, const Block& b, bool accumulate) {
  const std::int64_t depth = a.shape.depth;
  const auto part = [&](std::int64_t j, std::int64_t count, std::int64_t) {
    // On the diagonal, keys from j on are seen by the queries from j on.
    const std::int64_t skipped = b.diagonal ? j : 0;
    SmallGemm product{.m = count,
                      .n = depth,
                      .k = b.rows - skipped,
                      .a = a.scores + skipped * kAttentionRow + j,
                      .a_row = 1,
                      .a_col = kAttentionRow,
                      .b = a.gradients + (b.query + skipped) * depth,
                      .b_row = depth,
                      .c = a.dv + (b.key + j) * depth,
                      .c_row = depth};
    small_gemm(product, accumulate);
    product.a = a.dscores + skipped * kAttentionRow + j;
    product.b = a.queries + (b.query + skipped) * depth;
    product.c = a.dk + (b.key + j) * depth;
    small_gemm(product, accumulate);
  };
  for_each_part(b.keys, b.rows, b.diagonal, part);
}

LOCKSTEP_INLINE void pack_head(const AttentionBwdArgs& a, const HeadOf& head) {
  const std::int64_t tokens = a.shape.tokens, depth = a.shape.depth;
  copy_rows(a.queries, a.qkv + head.query(0), head.input_row, tokens, depth, head.scale);
  copy_rows(a.keys, a.qkv + head.key(0), head.input_row, tokens, depth, head.scale);
  copy_rows(a.gradients, a.dy + head.output(0), head.width, tokens, depth, 1.0f);
  transpose_blocks(a.columns_k, a.qkv + head.key(0), head.input_row, tokens, depth);
  transpose_blocks(a.columns_v, a.qkv + head.value(0), head.input_row, tokens, depth);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float *const y = a.y + head.output(t), *const dy = a.gradients + t * depth;
    Vec sum = zero();
    for_each_vec(depth, [&](std::int64_t d, auto lanes) {
      sum = fma(load(y + d, lanes), load(dy + d, lanes), sum);
    });
    a.deltas[t] = total(sum);
  }
}

/// The packed rows to their places in the gradient of qkv.
LOCKSTEP_INLINE void unpack_rows(
    float* out, std::int64_t out_row, const float* in, std::int64_t rows, std::int64_t depth) {
  for (std::int64_t r = 0; r < rows; ++r)
    for_each_vec(depth, [=](std::int64_t d, auto lanes) {
      store(out + r * out_row + d, load(in + r * depth + d, lanes), lanes);
    });
}

}  // namespace

void attention_bwd(const AttentionBwdArgs& a) {
  const std::int64_t tokens = a.shape.tokens, depth = a.shape.depth;
  for (std::int64_t n = 0; n < a.shape.samples; ++n)
    for (std::int64_t h = 0; h < a.shape.heads; ++h) {
      const HeadOf head(a.shape, n, h);
      pack_head(a, head);
      for (std::int64_t key = 0; key < tokens; key += kAttentionBlock) {
        const std::int64_t first = a.shape.causal ? key : 0;
        for (std::int64_t query = first; query < tokens; query += kAttentionBlock) {
          const Block block{.query = query,
                            .rows = at_most(kAttentionBlock, tokens - query),
                            .key = key,
                            .keys = at_most(kAttentionBlock, tokens - key),
                            .diagonal = a.shape.causal && query == key};
          scores_of(a, head, block);
          add_to_keys(a, block, query > first);
        }
      }
      unpack_rows(a.dqkv + head.query(0), head.input_row, a.dq, tokens, depth);
      unpack_rows(a.dqkv + head.key(0), head.input_row, a.dk, tokens, depth);
      unpack_rows(a.dqkv + head.value(0), head.input_row, a.dv, tokens, depth);
    }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
