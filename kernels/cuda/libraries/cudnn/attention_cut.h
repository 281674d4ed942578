// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/attention/fused_attention.h"

namespace lockstep::cuda {

/// How many samples and heads one run of a plan takes. Both divide those of the attention; where
/// heads are fewer than its own, samples are 1.
struct AttentionCut {
  std::int64_t samples = 0, heads = 0;
};

/// cuDNN's deterministic backward keeps the gradients of all scores in its workspace, as bf16, with
/// tokens in multiples of 128. The largest cut for which they fit into kMaxPlanWorkspace, or one
/// head of one sample; all at once where the parts' rows of lse would not begin at multiples of 16
/// bytes. Forward keeps nothing and takes all at once.
AttentionCut cut_of(const FusedAttentionSpec& spec);

/// What cuDNN of version `number` (91900: 9.19.0) is known to lack, or to compute wrongly; empty:
/// nothing. From the checks of NVIDIA's cudnn-frontend 1.23
/// (node/scaled_dot_product_flash_attention.h, node/sdpa_support_surface.h).
std::string why_not_attention(const FusedAttentionSpec& spec, int number);

/// The score that cuDNN of version `number` wants for a key that a query does not see: -inf from
/// 9.10 on, the lowest float before.
float hidden_score(int number);

}  // namespace lockstep::cuda
