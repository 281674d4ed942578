// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/ops/conv2d.h"
#include "kernels/cuda/activation_kernel.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/convolution/empty_conv2d.h"
#include "kernels/cuda/device/algorithm_key.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/linear/bias.h"
#include "kernels/cuda/linear/column_sums.h"
#include "kernels/cuda/linear/matrix_product.h"
#include "kernels/cuda/linear/product_helpers.h"
#include "kernels/cuda/linear/split_product.h"

// Convolutions are the library's (convolution.h), on NHWC activations and the weight's own layout,
// and an own kernel's where it has none (direct_convolution.cu). With one to seven channels in
// bf16 they are one of eight (padded_convolution.cu), with windows of one element in fp32 GEMMs
// (product_convolution.cpp). The library divides the work
// itself; x, weight and y are moved once at least. Bound by the tensor cores where channels are
// many, by memory in 1x1 convolutions of few channels and in depthwise ones. With bf16 activations
// they read a bf16 copy of the weight, refreshed when parameters change.
//   - Bias: inside the library's kernel where it takes one, which adds before it rounds. Otherwise
//     an own kernel adds it after: to fp32 sums in the workspace where the library stores those
//     from bf16 operands, which rounds once as well; else to what is stored, and bf16 is rounded
//     twice. ReLU runs after all of them.
//   - Gradient of the weight: of windows of one element that stand one next to the other it is the
//     GEMM dy^T x, which stores and accumulates fp32. Elsewhere bf16 goes into the workspace, and
//     an own kernel converts and accumulates it: from bf16 cuDNN 9.19 on an H200 stores fp32 by one
//     engine alone, which it compiles for 0.4 s while the program starts, and which takes 2 to 20
//     times as long (64 channels of 32 x 32: 15 TFLOP/s). It is taken where there is no other.
//   - Gradient of the bias: column_sums over dy.
namespace lockstep::cuda {
namespace {

ConvolutionSpec convolution(ConvolutionPass pass,
                            const ops::Conv2dAttrs& attrs,
                            const TensorType& x,
                            const Shape& weight,
                            const Shape& y) {
  return {.pass = pass,
          .type = x.dtype,
          .result = x.dtype,
          .n = x.shape[0],
          .h = x.shape[1],
          .w = x.shape[2],
          .c = x.shape[3],
          .k = weight[0],
          .kernel_h = weight[1],
          .kernel_w = weight[2],
          .out_h = y[1],
          .out_w = y[2],
          .stride_h = attrs.stride_h,
          .stride_w = attrs.stride_w,
          .padding_h = attrs.padding_h,
          .padding_w = attrs.padding_w,
          .groups = attrs.groups};
}

/// The library's; null where it has none.
std::unique_ptr<Convolution> make_library_convolution(const Device& device,
                                                      const ConvolutionSpec& conv,
                                                      const std::string& what) {
  if (auto product = make_product_convolution(device, conv, what)) return product;
  if (auto padded = make_padded_convolution(device, conv, what)) return padded;
  return make_convolution(device, conv, what);
}

/// What is run where the library has no algorithm; the backend's notices name it.
std::unique_ptr<Convolution> fall_back(const Device& device,
                                       const ConvolutionSpec& conv,
                                       const KernelSpec& spec) {
  const AlgorithmChoice* choice = device.algorithms->find(algorithm_key(device, conv));
  const std::string why = choice != nullptr ? choice->why_none : "";
  device.algorithms->note_slow(
      fmt::format("{} {}", name_of(spec.op.kind()), spec.path),
      fmt::format("far slower than other convolutions, on an own kernel without tensor cores, as "
                  "cuDNN has no deterministic algorithm for these windows, groups or channels{}{}",
                  why.empty() ? "" : ": ",
                  why));
  return make_direct_convolution(device, conv);
}

/// Forward or data gradient: a convolution that reads the weight.
class ReadingConvolution : public BoundKernel {
 public:
  ReadingConvolution(const ConvolutionSpec& conv, const KernelSpec& spec, const Device& device)
      : BoundKernel(device), spec_(conv), weight_elems_(spec.inputs[1].elems()) {
    if (spec_.type == DType::bf16) copies_.push_back(bf16_copy(1, spec.inputs[1]));
  }

  std::size_t workspace_bytes() const override { return convolution_->workspace_bytes(); }
  std::vector<PackedCopy> packed_copies() const final { return copies_; }
  void pack(int) final { round_to_bf16(device(), packed<void>(0), input(1), weight_elems_); }

 protected:
  void* weight() const {
    return copies_.empty() ? const_cast<void*>(input<void>(1)) : packed<void>(0);
  }

  ConvolutionSpec spec_;
  std::unique_ptr<Convolution> convolution_;

 private:
  std::int64_t weight_elems_;
  std::vector<PackedCopy> copies_;
};

class Conv2dKernel final : public ReadingConvolution {
 public:
  Conv2dKernel(ConvolutionSpec conv, bool bias, const KernelSpec& spec, const Device& device)
      : ReadingConvolution(conv, spec, device) {
    const std::string what = describe(spec);
    spec_.bias = bias;
    convolution_ = make_library_convolution(device, spec_, what);
    if (!convolution_ && bias) choose_without_bias(what);
    if (!convolution_) convolution_ = fall_back(device, spec_, spec);
  }

  std::size_t workspace_bytes() const override {
    return sums_offset() + (sums_in_workspace() ? elems() * sizeof(float) : 0);
  }

  void run(const RunState&) override {
    void* sums = sums_in_workspace() ? workspace<void>(sums_offset()) : output<void>(0);
    convolution_->run({.x = const_cast<void*>(input<void>(0)),
                       .weight = weight(),
                       .y = sums,
                       .bias = spec_.bias ? input(2) : nullptr,
                       .workspace = workspace<void>()});
    if (adds_bias_)
      add_bias(device(),
               {.values = sums,
                .values_type = spec_.result,
                .bias = input(2),
                .y = output<void>(0),
                .type = spec_.type,
                .rows = spec_.n * spec_.out_h * spec_.out_w,
                .columns = spec_.k});
  }

 private:
  void choose_without_bias(const std::string& what) {
    ConvolutionSpec plain = spec_;
    plain.bias = false;
    for (const DType result : {DType::f32, spec_.type}) {
      plain.result = result;
      convolution_ = make_library_convolution(device(), plain, what);
      if (!convolution_) continue;
      spec_ = plain;
      adds_bias_ = true;
      return;
    }
  }

  bool sums_in_workspace() const { return spec_.result != spec_.type; }
  std::size_t elems() const { return std::size_t(spec_.n * spec_.out_h * spec_.out_w * spec_.k); }
  std::size_t sums_offset() const { return aligned(convolution_->workspace_bytes()); }

  bool adds_bias_ = false;  ///< after the convolution
};

class Conv2dBwdDataKernel final : public ReadingConvolution {
 public:
  Conv2dBwdDataKernel(const ConvolutionSpec& conv, const KernelSpec& spec, const Device& device)
      : ReadingConvolution(conv, spec, device) {
    convolution_ = make_library_convolution(device, spec_, describe(spec));
    if (!convolution_) convolution_ = fall_back(device, spec_, spec);
  }

  void run(const RunState&) override {
    convolution_->run({.x = output<void>(0),
                       .weight = weight(),
                       .y = const_cast<void*>(input<void>(0)),
                       .workspace = workspace<void>()});
  }
};

class Conv2dBwdWeightsKernel final : public BoundKernel {
 public:
  Conv2dBwdWeightsKernel(const ConvolutionSpec& conv,
                         bool bias,
                         const KernelSpec& spec,
                         const Device& device)
      : BoundKernel(device),
        spec_(conv),
        bias_(bias),
        elems_(spec.outputs[0].elems()),
        output_accumulates_(spec.output_accumulates) {
    const std::string what = describe(spec);
    if (is_product(spec_)) {
      product_ = make_split_product(device,
                                    {.m = spec_.k,
                                     .n = spec_.c,
                                     .k = rows(),
                                     .transpose_a = true,
                                     .factors = spec_.type,
                                     .result = DType::f32},
                                    what);
      return;
    }
    convolution_ = make_library_convolution(device, spec_, what);
    if (convolution_) return;
    spec_.result = DType::f32;
    if (spec_.type != DType::f32) convolution_ = make_library_convolution(device, spec_, what);
    if (!convolution_) convolution_ = fall_back(device, spec_, spec);
  }

  std::size_t workspace_bytes() const override {
    return sums_offset() + (bias_ ? column_sums_workspace(rows(), spec_.k) : 0);
  }

  void run(const RunState& state) override {
    const bool accumulate = accumulates(output_accumulates_, 0, state);
    if (product_)
      product_->run({.a = input<void>(1),
                     .b = input<void>(0),
                     .c = output(0),
                     .accumulate = accumulate,
                     .workspace = workspace<void>()});
    else
      convolve(accumulate);
    if (bias_)
      column_sums(device(),
                  {.values = input<void>(1),
                   .type = spec_.type,
                   .rows = rows(),
                   .columns = spec_.k,
                   .sums = output(1),
                   .accumulate = accumulates(output_accumulates_, 1, state),
                   .workspace = workspace<void>(sums_offset())});
  }

 private:
  void convolve(bool accumulate) {
    const bool direct = !accumulate && spec_.result == DType::f32;
    void* gradient = direct ? output<void>(0) : workspace<void>(gradient_offset());
    convolution_->run({.x = const_cast<void*>(input<void>(0)),
                       .weight = gradient,
                       .y = const_cast<void*>(input<void>(1)),
                       .workspace = workspace<void>()});
    if (!direct) store_gradient(device(), output(0), gradient, spec_.result, elems_, accumulate);
  }

  std::int64_t rows() const { return spec_.n * spec_.out_h * spec_.out_w; }
  std::size_t gradient_offset() const { return aligned(convolution_->workspace_bytes()); }
  std::size_t sums_offset() const {
    if (product_) return aligned(product_->workspace_bytes());
    const bool may_accumulate = !output_accumulates_.empty() && output_accumulates_[0];
    const bool in_workspace = may_accumulate || spec_.result != DType::f32;
    const std::size_t bytes = std::size_t(elems_) * size_in_bytes(spec_.result);
    return gradient_offset() + (in_workspace ? aligned(bytes) : 0);
  }

  ConvolutionSpec spec_;
  bool bias_;
  std::int64_t elems_;
  std::vector<bool> output_accumulates_;
  // Exactly one is set.
  std::unique_ptr<MatrixProduct> product_;
  std::unique_ptr<Convolution> convolution_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv2d_kernel(const ops::Conv2d& op,
                                           const KernelSpec& spec,
                                           const Device& device) {
  const auto make_gemm = [&](const KernelSpec& product) -> std::unique_ptr<Kernel> {
    const bool bias = op.attrs().bias;
    if (is_empty(product)) return make_empty_conv2d(product, bias ? 2 : -1, device);
    const ConvolutionSpec conv = convolution(ConvolutionPass::forward,
                                             op.attrs(),
                                             product.inputs[0],
                                             product.inputs[1].shape,
                                             product.outputs[0].shape);
    return std::make_unique<Conv2dKernel>(conv, bias, product, device);
  };
  if (!op.attrs().relu) return make_gemm(spec);
  return make_with_activation(spec, ops::Activation::relu, false, device, make_gemm);
}

std::unique_ptr<Kernel> make_conv2d_bwd_data_kernel(const ops::Conv2dBwdData& op,
                                                    const KernelSpec& spec,
                                                    const Device& device) {
  if (is_empty(spec)) return make_empty_conv2d(spec, -1, device);
  const ConvolutionSpec conv = convolution(ConvolutionPass::data_gradient,
                                           op.attrs(),
                                           spec.outputs[0],
                                           spec.inputs[1].shape,
                                           spec.inputs[0].shape);
  return std::make_unique<Conv2dBwdDataKernel>(conv, spec, device);
}

std::unique_ptr<Kernel> make_conv2d_bwd_weights_kernel(const ops::Conv2dBwdWeights& op,
                                                       const KernelSpec& spec,
                                                       const Device& device) {
  if (is_empty(spec)) return make_empty_conv2d(spec, -1, device);
  const ConvolutionSpec conv = convolution(ConvolutionPass::weight_gradient,
                                           op.attrs(),
                                           spec.inputs[0],
                                           spec.outputs[0].shape,
                                           spec.inputs[1].shape);
  return std::make_unique<Conv2dBwdWeightsKernel>(conv, op.attrs().bias, spec, device);
}

}  // namespace lockstep::cuda
