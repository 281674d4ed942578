// SPDX-License-Identifier: Apache-2.0
#include "core/ops/conv2d.h"

#include "kernels/cpu/activation_kernel.h"
#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/convolution/depthwise_kernels.h"
#include "kernels/cpu/convolution/empty_conv2d.h"
#include "kernels/cpu/fp32_fallback_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/matrix_library.h"

// Convolutions are the matrix library's, but for depthwise ones that own loops do faster; what it
// does not do stands around them: ReLU, tensors without elements, and bf16 on processors that do
// not multiply it.
namespace lockstep::cpu {
namespace {

/// bf16 that no bf16 GEMM is there for.
bool is_widened(const KernelSpec& spec) {
  return has_bf16(spec) && (is_empty(spec) || bf16_products() == Bf16Products::widened);
}

}  // namespace

std::unique_ptr<Kernel> make_conv2d_kernel(const ops::Conv2d& op, const KernelSpec& spec) {
  if (op.attrs().relu) {
    ops::Conv2dAttrs attrs = op.attrs();
    attrs.relu = false;
    return make_with_activation(spec, ops::Activation::relu, false, [&](const KernelSpec& product) {
      return make_conv2d_kernel(ops::Conv2d(attrs), product);
    });
  }
  if (!is_empty(spec))
    if (auto own = make_depthwise(op.attrs(), spec)) return own;
  if (is_widened(spec))
    return make_fp32_fallback_kernel(
        spec, 1, [&](const KernelSpec& wide) { return make_conv2d_kernel(op, wide); });
  if (is_empty(spec)) return std::make_unique<EmptyConv>(spec, op.attrs().bias ? 2 : -1);
  return make_library_conv2d(op.attrs(), spec);
}

std::unique_ptr<Kernel> make_conv2d_bwd_data_kernel(const ops::Conv2dBwdData& op,
                                                    const KernelSpec& spec) {
  if (!is_empty(spec))
    if (auto own = make_depthwise_bwd_data(op.attrs(), spec)) return own;
  if (is_widened(spec))
    return make_fp32_fallback_kernel(
        spec, 1, [&](const KernelSpec& wide) { return make_conv2d_bwd_data_kernel(op, wide); });
  if (is_empty(spec)) return std::make_unique<EmptyConv>(spec, -1);
  return make_library_conv2d_bwd_data(op.attrs(), spec);
}

std::unique_ptr<Kernel> make_conv2d_bwd_weights_kernel(const ops::Conv2dBwdWeights& op,
                                                       const KernelSpec& spec) {
  if (!is_empty(spec))
    if (auto own = make_depthwise_bwd_weights(op.attrs(), spec)) return own;
  if (is_widened(spec))
    return make_fp32_fallback_kernel(
        spec, -1, [&](const KernelSpec& wide) { return make_conv2d_bwd_weights_kernel(op, wide); });
  if (is_empty(spec)) return std::make_unique<EmptyConv>(spec, -1);
  return make_library_conv2d_bwd_weights(op.attrs(), spec);
}

}  // namespace lockstep::cpu
