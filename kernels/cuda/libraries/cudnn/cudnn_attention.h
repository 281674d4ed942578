// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/attention/fused_attention.h"
#include "kernels/cuda/libraries/cudnn/attention_cut.h"
#include "kernels/cuda/libraries/cudnn/cudnn_plan.h"

namespace lockstep::cuda {

/// A plan for one part of an attention, which takes cuDNN seconds to compile.
struct BuiltAttention {
  std::shared_ptr<cudnnContext> handle;
  CudnnPlan plan;
};

/// Runs the plan of describe_attention(spec, cut) part by part.
std::unique_ptr<FusedAttention> make_cudnn_attention(std::shared_ptr<const BuiltAttention> built,
                                                     const FusedAttentionSpec& spec,
                                                     const AttentionCut& cut,
                                                     const std::string& what);

}  // namespace lockstep::cuda
