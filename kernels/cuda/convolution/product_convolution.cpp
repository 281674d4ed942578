// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/linear/matrix_product.h"

// Convolutions of windows of one element that stand one next to the other, in fp32, as a GEMM:
// forward x W^T, data gradient dy W, in rows of all samples and positions. Among cuDNN 9.19's
// deterministic algorithms the favourite took 27 ms on an H200 for a data gradient (64 samples of
// 56 x 56, 128 to 256 channels, 0.5 TFLOP/s), and forward 1.3 ms, where cuBLASLt's GEMMs run at 40
// TFLOP/s and more. In tf32 and bf16 cuDNN's run at three quarters of the memory's bandwidth.
namespace lockstep::cuda {
namespace {

class ProductConvolution final : public Convolution {
 public:
  ProductConvolution(bool forward, std::unique_ptr<MatrixProduct> product)
      : forward_(forward), product_(std::move(product)) {}

  std::size_t workspace_bytes() const override { return product_->workspace_bytes(); }
  void run(const ConvolutionArguments& arguments) override {
    product_->run({.a = forward_ ? arguments.x : arguments.y,
                   .b = arguments.weight,
                   .c = forward_ ? arguments.y : arguments.x,
                   .bias = arguments.bias,
                   .workspace = arguments.workspace});
  }

 private:
  bool forward_;
  std::unique_ptr<MatrixProduct> product_;
};

}  // namespace

bool is_product(const ConvolutionSpec& spec) {
  return spec.kernel_h == 1 && spec.kernel_w == 1 && spec.stride_h == 1 && spec.stride_w == 1 &&
         spec.padding_h == 0 && spec.padding_w == 0 && spec.groups == 1;
}

std::unique_ptr<Convolution> make_product_convolution(const Device& device,
                                                      const ConvolutionSpec& spec,
                                                      const std::string& what) {
  if (!is_product(spec) || spec.type != DType::f32 || device.tf32 ||
      spec.pass == ConvolutionPass::weight_gradient)
    return nullptr;
  const bool forward = spec.pass == ConvolutionPass::forward;
  auto product =
      make_matrix_product(device,
                          {.m = spec.n * spec.h * spec.w,
                           .n = forward ? spec.k : spec.c,
                           .k = forward ? spec.c : spec.k,
                           .transpose_b = forward,
                           .epilogue = spec.bias ? MatrixEpilogue::bias : MatrixEpilogue::none},
                          what);
  if (!product) return nullptr;
  return std::make_unique<ProductConvolution>(forward, std::move(product));
}

}  // namespace lockstep::cuda
