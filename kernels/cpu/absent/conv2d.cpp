// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/absent/convolution_windows.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cpu/small_gemm.h"

// Convolutions where there is no library for them: each image's windows are copied into a matrix,
// small_gemm multiplies. An image's results depend on no other image.
namespace lockstep::cpu {
namespace {

class WindowsConv : public BoundKernel {
 public:
  explicit WindowsConv(const ConvolutionWindows& windows) : windows_(windows) {}
  std::size_t workspace_bytes() const final {
    return windows_.are_pixels() ? 0 : windows_.columns_bytes();
  }

 protected:
  /// The windows of one image and group of x: [N, H, W, C].
  const float* columns(const float* x, std::int64_t image, std::int64_t group) const {
    const float* from = x + image * windows_.image_elems();
    if (windows_.are_pixels()) return from;
    windows_.gather(workspace<float>(), from, group);
    return workspace<float>();
  }
  /// Offset of the image's and group's part of y or dy.
  std::int64_t part(std::int64_t image, std::int64_t group) const {
    return image * windows_.pixels() * windows_.o + group * windows_.filters;
  }

  ConvolutionWindows windows_;
  decltype(&baseline::small_gemm) product_ = LOCKSTEP_CHOOSE(small_gemm);
};

class ConvForward final : public WindowsConv {
 public:
  ConvForward(const ConvolutionWindows& windows, bool bias) : WindowsConv(windows), bias_(bias) {}

  std::vector<PackedCopy> packed_copies() const override {
    return {{1,
             fmt::format("conv2d.wt.panels.{}", windows_.attrs.groups),
             std::size_t(windows_.attrs.groups * panels()) * sizeof(float)}};
  }
  void pack(int) override {
    const ConvolutionWindows& w = windows_;
    for (std::int64_t g = 0; g < w.attrs.groups; ++g)
      transpose_(packed<float>(0) + g * panels(),
                 input(1) + g * w.filters * w.depth(),
                 w.depth(),
                 w.filters);
  }
  void run(const RunState&) override {
    const ConvolutionWindows& w = windows_;
    for (std::int64_t image = 0; image < w.images; ++image)
      for (std::int64_t g = 0; g < w.attrs.groups; ++g) {
        product_({.m = w.pixels(),
                  .n = w.filters,
                  .k = w.depth(),
                  .a = columns(input(0), image, g),
                  .a_row = w.depth(),
                  .b = packed<float>(0) + g * panels(),
                  .b_row = kPanel,
                  .c = output(0) + part(image, g),
                  .c_row = w.o,
                  .bias = bias_ ? input(2) + g * w.filters : nullptr,
                  .b_panel = w.depth() * kPanel},
                 false);
      }
  }

 private:
  std::int64_t panels() const { return panels_elems(windows_.depth(), windows_.filters); }

  bool bias_;
  decltype(&baseline::transpose_to_panels) transpose_ = LOCKSTEP_CHOOSE(transpose_to_panels);
};

class ConvBwdData final : public WindowsConv {
 public:
  using WindowsConv::WindowsConv;

  void run(const RunState&) override {
    const ConvolutionWindows& w = windows_;
    const bool scatters = !w.are_pixels();
    if (scatters) std::fill_n(output(0), w.images * w.image_elems(), 0.0f);
    for (std::int64_t image = 0; image < w.images; ++image)
      for (std::int64_t g = 0; g < w.attrs.groups; ++g) {
        float* dx = output(0) + image * w.image_elems();
        product_({.m = w.pixels(),
                  .n = w.depth(),
                  .k = w.filters,
                  .a = input(0) + part(image, g),
                  .a_row = w.o,
                  .b = input(1) + g * w.filters * w.depth(),
                  .b_row = w.depth(),
                  .c = scatters ? workspace<float>() : dx,
                  .c_row = w.depth()},
                 false);
        if (scatters) w.scatter_add(dx, workspace<float>(), g);
      }
  }
};

class ConvBwdWeights final : public WindowsConv {
 public:
  ConvBwdWeights(const ConvolutionWindows& windows, bool bias, const KernelSpec& spec)
      : WindowsConv(windows), bias_(bias), accumulates_(spec.output_accumulates) {
    accumulates_.resize(2);
  }

  void run(const RunState& state) override {
    const ConvolutionWindows& w = windows_;
    const bool accumulate = state.accumulate && accumulates_[0];
    for (std::int64_t image = 0; image < w.images; ++image)
      for (std::int64_t g = 0; g < w.attrs.groups; ++g) {
        product_({.m = w.filters,
                  .n = w.depth(),
                  .k = w.pixels(),
                  .a = input(1) + part(image, g),
                  .a_row = 1,
                  .a_col = w.o,
                  .b = columns(input(0), image, g),
                  .b_row = w.depth(),
                  .c = output(0) + g * w.filters * w.depth(),
                  .c_row = w.depth()},
                 accumulate || image > 0);
      }
    if (bias_)
      sums_(output(1), input(1), w.images * w.pixels(), w.o, state.accumulate && accumulates_[1]);
  }

 private:
  bool bias_;
  std::vector<bool> accumulates_;
  decltype(&baseline::column_sums<float>) sums_ = LOCKSTEP_CHOOSE(column_sums<float>);
};

}  // namespace

std::unique_ptr<Kernel> make_library_conv2d(const ops::Conv2dAttrs& attrs, const KernelSpec& spec) {
  const ConvolutionWindows windows(
      attrs, spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape);
  return std::make_unique<ConvForward>(windows, attrs.bias);
}

std::unique_ptr<Kernel> make_library_conv2d_bwd_data(const ops::Conv2dAttrs& attrs,
                                                     const KernelSpec& spec) {
  return std::make_unique<ConvBwdData>(
      ConvolutionWindows(attrs, spec.outputs[0].shape, spec.inputs[1].shape, spec.inputs[0].shape));
}

std::unique_ptr<Kernel> make_library_conv2d_bwd_weights(const ops::Conv2dAttrs& attrs,
                                                        const KernelSpec& spec) {
  const ConvolutionWindows windows(
      attrs, spec.inputs[0].shape, spec.outputs[0].shape, spec.inputs[1].shape);
  return std::make_unique<ConvBwdWeights>(windows, attrs.bias, spec);
}

}  // namespace lockstep::cpu
