// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/device/device.h"

namespace lockstep::cuda {

enum class AttentionPass : std::uint8_t { forward, backward };

/// Attention of bf16 without dropout, as ops::Attention and ops::AttentionBwd have it: qkv:
/// [samples, tokens, 3, heads, depth], y and dy: [samples, tokens, heads, depth], lse: [samples,
/// heads, tokens] f32, all without gaps. All extents >= 1.
struct FusedAttentionSpec {
  AttentionPass pass = AttentionPass::forward;
  std::int64_t samples = 0, tokens = 0, heads = 0;
  std::int64_t depth = 0;  ///< columns of a head
  bool causal = false;

  std::int64_t rows() const { return samples * heads * tokens; }
  std::size_t y_bytes() const { return std::size_t(rows() * depth) * 2; }
  std::size_t qkv_bytes() const { return 3 * y_bytes(); }
  std::size_t lse_bytes() const { return std::size_t(rows()) * sizeof(float); }
};

/// forward: qkv -> y, lse; backward: qkv, y, lse, dy -> dqkv.
struct FusedAttentionArguments {
  const void* qkv = nullptr;
  void* y = nullptr;
  float* lse = nullptr;
  const void* dy = nullptr;
  void* dqkv = nullptr;
  void* workspace = nullptr;  ///< aligned to kWorkspaceAlignment
};

/// One attention with its algorithm, a deterministic one. cuDNN's on a device; plain loops in the
/// emulator.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// Enqueues it on the device's compute stream.
  virtual void run(const FusedAttentionArguments& arguments) = 0;
  /// For AlgorithmCache::built(); null: it takes no time to build.
  virtual std::shared_ptr<const void> built() const { return nullptr; }
};

/// What a library offers for an attention, the one that it expects to be the fastest first.
struct AttentionOffers {
  std::vector<std::unique_ptr<FusedAttention>> kernels;
  std::vector<std::string> texts;  ///< what build_attention() makes each of
  std::string why_none;            ///< where it offers none
};

/// `what` names the operator in errors.
AttentionOffers offer_attention(const Device& device,
                                const FusedAttentionSpec& spec,
                                const std::string& what);

/// The kernel that `text`, of offer_attention() here or on another rank, stands for. Throws
/// EnvironmentError: the library does not build it here.
std::unique_ptr<FusedAttention> build_attention(const Device& device,
                                                const FusedAttentionSpec& spec,
                                                const std::string& text,
                                                const std::string& what);

}  // namespace lockstep::cuda
