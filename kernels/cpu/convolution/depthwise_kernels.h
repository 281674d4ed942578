// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "core/ops/conv2d.h"

namespace lockstep::cpu {

/// Kernels of depthwise convolutions (groups = input channels = filters) by own loops, in fp32 or
/// bf16, for tensors that have elements: Note [Depthwise convolutions]. Null for convolutions that
/// are not depthwise, and where the matrix library is faster; see the .cpp.
std::unique_ptr<Kernel> make_depthwise(const ops::Conv2dAttrs& attrs, const KernelSpec& spec);
std::unique_ptr<Kernel> make_depthwise_bwd_data(const ops::Conv2dAttrs& attrs,
                                                const KernelSpec& spec);
std::unique_ptr<Kernel> make_depthwise_bwd_weights(const ops::Conv2dAttrs& attrs,
                                                   const KernelSpec& spec);

}  // namespace lockstep::cpu
