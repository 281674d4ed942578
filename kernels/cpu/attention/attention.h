// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa.h"

/// Loops of attention: see ops::Attention.
namespace lockstep::cpu {

struct AttentionShape {
  std::int64_t samples = 0, tokens = 0, heads = 0;
  std::int64_t kv_heads = 0;  ///< of keys and values
  std::int64_t depth = 0;     ///< columns of a head
  bool causal = false;
};

/// Queries and keys are worked on in blocks of this many: a block of scores, the keys and the
/// queries after it fit the L2 cache together. A multiple of the row counts of small_gemm's
/// blocks and of vectors.
inline constexpr std::int64_t kAttentionBlock = 96;
/// Distance of rows with one element a key: an odd number of cache lines, so that the lines of a
/// column spread over all sets.
inline constexpr std::int64_t kAttentionRow = kAttentionBlock + 16;

template <typename T>
struct AttentionArgs {
  AttentionShape shape;
  const T* qkv = nullptr;  ///< [samples, tokens, heads + 2 kv_heads, depth]
  T* y = nullptr;          ///< [samples, tokens, heads, depth]
  float* lse = nullptr;    ///< [samples, heads, tokens]
  bool drops = false;
  DropoutStream stream;
  float* queries = nullptr;  ///< workspace [kAttentionBlock, depth]
  float* keys = nullptr;     ///< workspace [blocks, depth, kAttentionRow]
  float* values = nullptr;   ///< workspace [tokens, depth]
  float* scores = nullptr;   ///< workspace [kAttentionBlock, kAttentionRow]
  float* sums = nullptr;     ///< workspace [kAttentionBlock, depth]
};

template <typename T>
struct AttentionBwdArgs {
  AttentionShape shape;
  const T* qkv = nullptr;
  const T* y = nullptr;
  const T* dy = nullptr;
  const float* lse = nullptr;
  T* dqkv = nullptr;
  bool drops = false;
  DropoutStream stream;
  float *queries = nullptr, *keys = nullptr, *gradients = nullptr;  ///< workspaces [tokens, depth]
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;                ///< as these
  float *columns_k = nullptr, *columns_v = nullptr;  ///< workspaces [blocks, depth, kAttentionRow]
  float *scores = nullptr, *dscores = nullptr;  ///< workspaces [kAttentionBlock, kAttentionRow]
  float* deltas = nullptr;                      ///< workspace [tokens]
};

LOCKSTEP_STORED_LOOP(void, attention, (const AttentionArgs<T>& args));
LOCKSTEP_STORED_LOOP(void, attention_bwd, (const AttentionBwdArgs<T>& args));

}  // namespace lockstep::cpu
