// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "core/ops/attention.h"
#include "kernels/cuda/attention/attention_trial.h"

namespace lockstep::cuda {

// Note [A library's attention]
//
// A library's fused attention may take the place of an own kernel where activations are bf16 and no
// weight is dropped. It does so only where rank 0 has timed it (TrainOptions::algorithms) and found
// that it stores the same bits twice, agrees with the own kernel on the trial's tensors, and is
// faster by more than kTrialMargin; or where that was found before, in the book of choices. With
// heuristics alone the own kernel runs, and the book has no entry. Forward and backward are chosen
// apart, since what lies between them, y and lse, is the same.

/// The library's kernel that runs in the place of `own`; null: `own` does. `kernel` is the node of
/// ops::Attention or ops::AttentionBwd with these attributes. Throws EnvironmentError: the book has
/// one that cannot run here.
std::unique_ptr<FusedAttention> choose_attention(const Device& device,
                                                 const KernelSpec& kernel,
                                                 const ops::AttentionAttrs& attrs,
                                                 const OwnAttention& own);

}  // namespace lockstep::cuda
