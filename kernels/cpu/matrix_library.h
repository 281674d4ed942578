// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/exec/kernel.h"
#include "core/ops/conv2d.h"
#include "core/ops/matmul.h"
#include "kernels/cpu/linear_extents.h"

/// What the CPU backend has from a matrix library. onednn/ takes it from oneDNN; absent/ is a
/// placeholder where that is not built in (-DLOCKSTEP_ONEDNN=OFF): the same results within
/// rounding, several times slower.
namespace lockstep::cpu {

/// "oneDNN 2.6.3": part of the device class, since bits depend on it.
std::string matrix_library();

/// Throws EnvironmentError: the library that was loaded is older than the one that this program was
/// built with, or of another major version.
void check_matrix_library();

/// Makes what the library starts on the calling thread run on this thread alone, for good.
void use_one_thread();

/// C = A B of matrices of `size` x `size` elements of `type`, to be timed; empty where the library
/// has no such GEMM here.
std::function<void()> make_square_matmul(DType type, std::int64_t size);

/// Kernels of ops::Linear without activation and of its gradients, in fp32 or, where
/// bf16_products() is not `widened`, with bf16 activations. Null where small_gemm is to be taken.
std::unique_ptr<Kernel> make_library_linear(const LinearExtents& e,
                                            bool bias,
                                            const KernelSpec& spec);
std::unique_ptr<Kernel> make_library_linear_bwd_data(const LinearExtents& e,
                                                     const KernelSpec& spec);
std::unique_ptr<Kernel> make_library_linear_bwd_weights(const LinearExtents& e,
                                                        bool bias,
                                                        const KernelSpec& spec);

/// Null where small_gemm is to be taken.
std::unique_ptr<Kernel> make_library_matmul(const ops::Matmul& op, const KernelSpec& spec);

/// Whether the library has fast kernels for depthwise convolutions, those of 3x3 at least.
bool has_depthwise_kernels();

/// Kernels of ops::Conv2d without ReLU and of its gradients, for tensors that have elements; bf16
/// only where bf16_products() is not `widened`. Throws Error: no kernel for these sizes.
std::unique_ptr<Kernel> make_library_conv2d(const ops::Conv2dAttrs& attrs, const KernelSpec& spec);
std::unique_ptr<Kernel> make_library_conv2d_bwd_data(const ops::Conv2dAttrs& attrs,
                                                     const KernelSpec& spec);
std::unique_ptr<Kernel> make_library_conv2d_bwd_weights(const ops::Conv2dAttrs& attrs,
                                                        const KernelSpec& spec);

}  // namespace lockstep::cpu
