// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "kernels/cuda/device/device.h"

namespace lockstep::cuda {

/// Whether any tensor of the node has no elements.
bool is_empty(const KernelSpec& spec);

/// A convolution of no samples, channels or filters: every sum of products is empty. Output 0 is
/// the bias or zero; output 1, where there is one, is the gradient of the bias. `bias_input`: the
/// input that output 0 repeats in its rows, or -1.
std::unique_ptr<Kernel> make_empty_conv2d(const KernelSpec& spec,
                                          int bias_input,
                                          const Device& device);

}  // namespace lockstep::cuda
