// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/convolution/depthwise_kernels.h"

#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/convolution/depthwise.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/flat.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cpu/small_gemm.h"

// Which convolutions are the loops' was measured on Zen 4 against oneDNN 2.6.3, one thread, in
// microseconds (oneDNN, own) for MobileNetV2's and ConvNeXt's layers:
//
//   window, image, channels    forward       data gradient   weight gradient
//   7x7, 14x14x384, fp32       661,  504     1106,  549       8007,  773
//   7x7, 14x14x384, bf16       705,  522      784,  577      12365,  830
//   3x3, 14x14x384, fp32       325,  397      331,  389        345,  419
//   3x3, 14x14x384, bf16       315,  430      318,  491        233,  386
//   3x3, 56x56x144, bf16      2805, 4965     3213, 4184       7123, 4734
//
// oneDNN has no kernel of its own for the weight gradient of 7x7.
namespace lockstep::cpu {
namespace {

enum class DepthwisePass { forward, data_gradient, weight_gradient };

bool is_depthwise(const ops::Conv2dAttrs& attrs, const Shape& weight) {
  return attrs.groups > 1 && weight[0] == attrs.groups && weight[3] == 1;
}

bool is_own(DepthwisePass pass, const ops::Conv2dAttrs& attrs, const Shape& weight, TensorType x) {
  if (!is_depthwise(attrs, weight)) return false;
  const bool is_bf16 = x.dtype == DType::bf16;
  if (!has_depthwise_kernels() || isa() != Isa::avx512 ||
      (is_bf16 && bf16_products() == Bf16Products::widened))
    return true;
  constexpr std::int64_t kLargeSide = 56;
  return weight[1] > 3 || weight[2] > 3 ||
         (pass == DepthwisePass::weight_gradient && is_bf16 && x.shape[2] >= kLargeSide);
}

DepthwiseShape depthwise_shape(const ops::Conv2dAttrs& a,
                               const Shape& x,
                               const Shape& weight,
                               const Shape& y) {
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .p = y[1],
          .q = y[2],
          .kernel_h = weight[1],
          .kernel_w = weight[2],
          .stride_h = a.stride_h,
          .stride_w = a.stride_w,
          .padding_h = a.padding_h,
          .padding_w = a.padding_w};
}

/// Forward or data gradient: taps in a packed copy, [kernel_h, kernel_w, c] f32. With bf16
/// activations they have the values that messages of weights bring, and lie in bf16 after them.
template <typename T>
class TapsKernel : public BoundKernel {
 public:
  explicit TapsKernel(const DepthwiseShape& shape) : shape_(shape) {}

  std::vector<PackedCopy> packed_copies() const final {
    const std::size_t bytes = sizeof(float) + (kIsBf16 ? sizeof(Bf16) : 0);
    return {{1, kIsBf16 ? "bf16.taps" : "taps", std::size_t(shape_.tap_elems()) * bytes}};
  }
  void pack(int) final {
    transpose_(packed<float>(0), input(1), shape_.c, shape_.kernel_h * shape_.kernel_w);
    if (!kIsBf16) return;
    const std::int64_t elems = shape_.tap_elems();
    auto* const rounded = reinterpret_cast<Bf16*>(packed<float>(0) + elems);
    round_(rounded, packed<float>(0), elems, bf16_products() != Bf16Products::widened);
    widen_(packed<float>(0), rounded, elems);
  }

 protected:
  const float* taps() const { return packed<float>(0); }
  DepthwiseShape shape_;

 private:
  static constexpr bool kIsBf16 = sizeof(T) == sizeof(Bf16);
  decltype(&baseline::transpose_taps) transpose_ = LOCKSTEP_CHOOSE(transpose_taps);
  decltype(&baseline::round_weights) round_ = LOCKSTEP_CHOOSE(round_weights);
  decltype(&baseline::widen_to_f32) widen_ = LOCKSTEP_CHOOSE(widen_to_f32);
};

template <typename T>
class DepthwiseForward final : public TapsKernel<T> {
 public:
  DepthwiseForward(const DepthwiseShape& shape, bool bias) : TapsKernel<T>(shape), bias_(bias) {}
  void run(const RunState&) override {
    loop_(this->template output<T>(0),
          this->template input<T>(0),
          this->taps(),
          bias_ ? this->input(2) : nullptr,
          this->shape_);
  }

 private:
  bool bias_;
  decltype(&baseline::depthwise<T>) loop_ = LOCKSTEP_CHOOSE(depthwise<T>);
};

template <typename T>
class DepthwiseBwdData final : public TapsKernel<T> {
 public:
  using TapsKernel<T>::TapsKernel;
  void run(const RunState&) override {
    loop_(this->template output<T>(0), this->template input<T>(0), this->taps(), this->shape_);
  }

 private:
  decltype(&baseline::depthwise_bwd_data<T>) loop_ = LOCKSTEP_CHOOSE(depthwise_bwd_data<T>);
};

template <typename T>
class DepthwiseBwdWeights final : public BoundKernel {
 public:
  DepthwiseBwdWeights(const DepthwiseShape& shape, bool bias, const KernelSpec& spec)
      : shape_(shape), bias_(bias), accumulates_(spec.output_accumulates) {
    accumulates_.resize(2);
  }
  std::size_t workspace_bytes() const override {
    return 2 * std::size_t(shape_.tap_elems()) * sizeof(float);
  }
  void run(const RunState& state) override {
    const DepthwiseShape& s = shape_;
    auto* const taps = workspace<float>();
    loop_(taps, taps + s.tap_elems(), input<T>(0), input<T>(1), s);
    store_(output(0), taps, s.c, s.kernel_h * s.kernel_w, state.accumulate && accumulates_[0]);
    if (bias_)
      sums_(output(1), input<T>(1), s.n * s.p * s.q, s.c, state.accumulate && accumulates_[1]);
  }

 private:
  DepthwiseShape shape_;
  bool bias_;
  std::vector<bool> accumulates_;
  decltype(&baseline::depthwise_bwd_weights<T>) loop_ = LOCKSTEP_CHOOSE(depthwise_bwd_weights<T>);
  decltype(&baseline::store_taps) store_ = LOCKSTEP_CHOOSE(store_taps);
  decltype(&baseline::column_sums<T>) sums_ = LOCKSTEP_CHOOSE(column_sums<T>);
};

}  // namespace

std::unique_ptr<Kernel> make_depthwise(const ops::Conv2dAttrs& attrs, const KernelSpec& spec) {
  const TensorType& x = spec.inputs[0];
  const Shape& weight = spec.inputs[1].shape;
  if (!is_own(DepthwisePass::forward, attrs, weight, x)) return nullptr;
  return make_stored<DepthwiseForward>(
      x.dtype, depthwise_shape(attrs, x.shape, weight, spec.outputs[0].shape), attrs.bias);
}

std::unique_ptr<Kernel> make_depthwise_bwd_data(const ops::Conv2dAttrs& attrs,
                                                const KernelSpec& spec) {
  const TensorType& dx = spec.outputs[0];
  const Shape& weight = spec.inputs[1].shape;
  if (!is_own(DepthwisePass::data_gradient, attrs, weight, dx)) return nullptr;
  return make_stored<DepthwiseBwdData>(
      dx.dtype, depthwise_shape(attrs, dx.shape, weight, spec.inputs[0].shape));
}

std::unique_ptr<Kernel> make_depthwise_bwd_weights(const ops::Conv2dAttrs& attrs,
                                                   const KernelSpec& spec) {
  const TensorType& x = spec.inputs[0];
  const Shape& weight = spec.outputs[0].shape;
  if (!is_own(DepthwisePass::weight_gradient, attrs, weight, x)) return nullptr;
  return make_stored<DepthwiseBwdWeights>(
      x.dtype, depthwise_shape(attrs, x.shape, weight, spec.inputs[1].shape), attrs.bias, spec);
}

}  // namespace lockstep::cpu
