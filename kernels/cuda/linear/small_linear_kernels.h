// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "core/ops/linear.h"
#include "kernels/cuda/linear/linear_extents.h"

/// Kernels of fully connected layers that are small, in fp32: SmallKernels (fused_small_kernels.h).
/// Null where a layer is not small, which its extents alone decide.
namespace lockstep::cuda {

std::unique_ptr<Kernel> make_small_linear(const LinearExtents& e,
                                          const ops::Linear& op,
                                          const KernelSpec& spec,
                                          const Device& device);
std::unique_ptr<Kernel> make_small_linear_bwd_data(const LinearExtents& e,
                                                   ops::Activation before,
                                                   const KernelSpec& spec,
                                                   const Device& device);
std::unique_ptr<Kernel> make_small_linear_bwd_weights(const LinearExtents& e,
                                                      bool bias,
                                                      const KernelSpec& spec,
                                                      const Device& device);

}  // namespace lockstep::cuda
