// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/loops/attention_parts.h"

// Blocks of keys meet blocks of queries, keys outermost: their gradients and those of the values
// stay in the caches, while the sums of the queries' gradients come and go. Queries and keys are
// packed with the factor 1 / sqrt(D) in them, so that no score has to be scaled.
namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Scores and products dy . v of a part to the weights after dropout and the scores' gradients,
/// both zero for keys that a row does not see.
template <int vectors, bool drops, typename T>
void gradients_of(const AttentionBwdArgs<T>& a,
                  const HeadOf& head,
                  const ScorePart& part,
                  std::int64_t first_query,
                  std::int64_t key) {
  const Vec scale = broadcast(a.stream.scale);
  for (std::int64_t i = 0; i < part.count; ++i) {
    const std::int64_t query = first_query + part.row + i, visible = part.visible(i);
    const Vec lse = broadcast(a.lse[head.row(query)]), delta = broadcast(a.deltas[query]);
    DropWords words;
    if constexpr (drops) words.draw(a.stream, head, query, key, visible);
    const RowMask<vectors> mask(visible);
#pragma GCC unroll 12
    for (int v = 0; v < vectors; ++v) {
      const int j = v * kLanes;
      float* const s = a.scores + (part.row + i) * kAttentionRow + j;
      float* const ds = a.dscores + (part.row + i) * kAttentionRow + j;
      const Vec p = exp_nonpositive(mask.apply(v, load(s), broadcast(-kInfinity)) - lse);
      Vec dropped = p, dp = load(ds);
      if constexpr (drops) {
        const VecI kept = words.kept(j, a.stream);
        dropped = kept ? p * scale : zero();
        dp = kept ? dp * scale : zero();
      }
      store(s, dropped);
      store(ds, mask.apply(v, p * (dp - delta), zero()));
    }
  }
}

struct Block {
  std::int64_t query, rows, key, keys;
  bool diagonal;
};

/// Weights and gradients of the scores of one block, and what they add to dq.
template <typename T>
LOCKSTEP_INLINE void scores_of(const AttentionBwdArgs<T>& a, const HeadOf& head, const Block& b) {
  const std::int64_t depth = a.shape.depth;
  const std::int64_t columns = b.key / kAttentionBlock * depth * kAttentionRow;
  for_each_part(b.rows, b.keys, b.diagonal, [&](const ScorePart& part) {
    SmallGemm product{.m = part.count,
                      .n = part.padded(),
                      .k = depth,
                      .a = a.queries + (b.query + part.row) * depth,
                      .a_row = depth,
                      .b = a.columns_k + columns,
                      .b_row = kAttentionRow,
                      .c = a.scores + part.row * kAttentionRow,
                      .c_row = kAttentionRow};
    small_gemm(product, false);
    product.a = a.gradients + (b.query + part.row) * depth;
    product.b = a.columns_v + columns;
    product.c = a.dscores + part.row * kAttentionRow;
    small_gemm(product, false);
    with_vectors(part.vectors(), [&](auto vectors) {
      if (a.drops)
        gradients_of<vectors.value, true>(a, head, part, b.query, b.key);
      else
        gradients_of<vectors.value, false>(a, head, part, b.query, b.key);
    });
    small_gemm({.m = part.count,
                .n = depth,
                .k = part.covered,
                .a = a.dscores + part.row * kAttentionRow,
                .a_row = kAttentionRow,
                .b = a.keys + b.key * depth,
                .b_row = depth,
                .c = a.dq + (b.query + part.row) * depth,
                .c_row = depth},
               b.key > 0);
  });
}

/// What one block adds to dk and dv: products with the transposed weights.
template <typename T>
LOCKSTEP_INLINE void add_to_keys(const AttentionBwdArgs<T>& a, const Block& b, bool accumulate) {
  const std::int64_t depth = a.shape.depth;
  for_each_part(b.keys, b.rows, b.diagonal, [&](const ScorePart& part) {
    // On the diagonal, keys from j on are seen by the queries from j on.
    const std::int64_t j = part.row, skipped = b.diagonal ? j : 0;
    SmallGemm product{.m = part.count,
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
  });
}

/// What the heads of a group share.
template <typename T>
LOCKSTEP_INLINE void pack_keys(const AttentionBwdArgs<T>& a, const HeadOf& head) {
  const std::int64_t tokens = a.shape.tokens, depth = a.shape.depth;
  copy_rows(a.keys, a.qkv + head.key(0), head.input_row, tokens, depth, head.scale);
  transpose_blocks(a.columns_k, a.qkv + head.key(0), head.input_row, tokens, depth, a.dk);
  transpose_blocks(a.columns_v, a.qkv + head.value(0), head.input_row, tokens, depth, a.dv);
}

template <typename T>
LOCKSTEP_INLINE void pack_queries(const AttentionBwdArgs<T>& a, const HeadOf& head) {
  const std::int64_t tokens = a.shape.tokens, depth = a.shape.depth;
  copy_rows(a.queries, a.qkv + head.query(0), head.input_row, tokens, depth, head.scale);
  copy_rows(a.gradients, a.dy + head.output(0), head.width, tokens, depth, 1.0f);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const T* const y = a.y + head.output(t);
    const float* const dy = a.gradients + t * depth;
    Vec sum = zero();
    for_each_vec(depth, [&](std::int64_t d, auto lanes) {
      sum = fma(load(y + d, lanes), load(dy + d, lanes), sum);
    });
    a.deltas[t] = total(sum);
  }
}

/// The packed rows to their places in the gradient of qkv.
template <typename T>
LOCKSTEP_INLINE void unpack_rows(
    T* out, std::int64_t out_row, const float* in, std::int64_t rows, std::int64_t depth) {
  for (std::int64_t r = 0; r < rows; ++r)
    for_each_vec(depth, [=](std::int64_t d, auto lanes) {
      store(out + r * out_row + d, load(in + r * depth + d, lanes), lanes);
    });
}

}  // namespace

template <typename T>
void attention_bwd(const AttentionBwdArgs<T>& a) {
  const std::int64_t tokens = a.shape.tokens, depth = a.shape.depth;
  const std::int64_t group = a.shape.heads / a.shape.kv_heads;
  for (std::int64_t n = 0; n < a.shape.samples; ++n)
    for (std::int64_t h = 0; h < a.shape.heads; ++h) {
      const HeadOf head(a.shape, n, h);
      const bool first_of_group = h % group == 0;
      if (first_of_group) pack_keys(a, head);
      pack_queries(a, head);
      for (std::int64_t key = 0; key < tokens; key += kAttentionBlock) {
        const std::int64_t first = a.shape.causal ? key : 0;
        for (std::int64_t query = first; query < tokens; query += kAttentionBlock) {
          const Block block{.query = query,
                            .rows = at_most(kAttentionBlock, tokens - query),
                            .key = key,
                            .keys = at_most(kAttentionBlock, tokens - key),
                            .diagonal = a.shape.causal && query == key};
          scores_of(a, head, block);
          add_to_keys(a, block, !first_of_group || query > first);
        }
      }
      unpack_rows(a.dqkv + head.query(0), head.input_row, a.dq, tokens, depth);
      if ((h + 1) % group != 0) continue;
      unpack_rows(a.dqkv + head.key(0), head.input_row, a.dk, tokens, depth);
      unpack_rows(a.dqkv + head.value(0), head.input_row, a.dv, tokens, depth);
    }
}

LOCKSTEP_INSTANTIATE(attention_bwd);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
