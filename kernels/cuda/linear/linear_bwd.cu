// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/ops/linear.h"
#include "kernels/cuda/activation_kernel.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/linear/column_sums.h"
#include "kernels/cuda/linear/linear_extents.h"
#include "kernels/cuda/linear/matrix_product.h"
#include "kernels/cuda/linear/product_helpers.h"
#include "kernels/cuda/linear/small_linear_kernels.h"
#include "kernels/cuda/linear/split_product.h"
#include "lockstep/error.h"

// Gradients of fully connected layers: the library's GEMMs, as linear.cu; small ones in
// fp32 are steps of a block program.
//
// Note [Gradients of biases]
//
// column_sums() reads dy again, which the weight gradient's GEMM has read. cuBLASLt has that GEMM
// with the sums in it (BGRADB): on an H200, 13.1 was 4 to 13% slower so than both one by one, in
// each of 11 sizes of GPT-2's layers, so that it is not used.
//
// Sums are split where the library does not (Note [Long sums of few elements]): cuBLASLt took
// 1.28 ms for 768 x 768 of 8,192 rows in fp32, at 7.5 TFLOP/s, and of 16,384 rows in bf16 0.36 ms
// for 384 x 1536, 2.7 ms for 65 x 384.
//
// Note [Weight gradients of many outputs]
//
// Where a vocabulary is not a multiple of eight, cuBLASLt has its slow kernels alone for the
// gradient's rows: 50257 of them took 10.1 ms on an H200, at 500 TFLOP/s, where the head's other
// GEMMs took 6.1 and 7.0 (GPT-2, 65,536 tokens in bf16, rows of dy padded to 50304). So all rows
// but the last few are a GEMM of their own, to the last multiple of kRowTile, at which pointers are
// as aligned as a GEMM is promised; the others are a second one.
namespace lockstep::cuda {
namespace {

class LinearBwdDataKernel final : public BoundKernel {
 public:
  LinearBwdDataKernel(const LinearExtents& e,
                      ops::Activation before,
                      const KernelSpec& spec,
                      const Device& device)
      : BoundKernel(device), e_(e), before_(before), type_(spec.inputs[0].dtype) {
    if (e.empty()) return;
    if (type_ == DType::bf16) copies_.push_back(bf16_copy(1, spec.inputs[1], e.padded_out));
    MatrixProductSpec product{
        .m = e.rows, .n = e.in, .k = e.padded_out, .factors = type_, .result = type_};
    if (type_ == DType::bf16 && before == ops::Activation::gelu_tanh) {
      product.epilogue = MatrixEpilogue::gelu_tanh_gradient;
      product_ = make_matrix_product(device, product, describe(spec));
      product.epilogue = MatrixEpilogue::none;
    }
    gradient_in_product_ = product_ != nullptr;
    if (!product_) product_ = make_matrix_product(device, product, describe(spec));
  }

  std::size_t workspace_bytes() const override {
    return product_ ? product_->workspace_bytes() : 0;
  }
  std::vector<PackedCopy> packed_copies() const override { return copies_; }
  void pack(int) override { pack_weight(device(), e_, packed<void>(0), input(1)); }
  void run(const RunState&) override {
    const std::int64_t elems = e_.rows * e_.in;
    if (!product_) {
      const std::size_t bytes = std::size_t(elems) * size_in_bytes(type_);
      return check(cudaMemsetAsync(output<void>(0), 0, bytes, stream()), "linear_bwd_data");
    }
    product_->run({.a = input<void>(0),
                   .b = type_ == DType::bf16 ? packed<void>(0) : input<void>(1),
                   .c = output<void>(0),
                   .slope_at = gradient_in_product_ ? input<void>(2) : nullptr,
                   .workspace = workspace<void>()});
    if (before_ != ops::Activation::none && !gradient_in_product_)
      apply_gelu_gradient(device(), before_, output<void>(0), input<void>(2), type_, elems);
  }

 private:
  LinearExtents e_;
  ops::Activation before_;
  DType type_;
  bool gradient_in_product_ = false;
  std::vector<PackedCopy> copies_;
  std::unique_ptr<MatrixProduct> product_;
};

constexpr std::int64_t kRowTile = 32, kManyOutputs = 4096;
static_assert(kRowTile * std::int64_t(sizeof(std::uint16_t)) % kProductAlignment == 0);

class LinearBwdWeightsKernel final : public BoundKernel {
 public:
  LinearBwdWeightsKernel(const LinearExtents& e,
                         bool bias,
                         const KernelSpec& spec,
                         const Device& device)
      : BoundKernel(device),
        e_(e),
        bias_(bias),
        type_(spec.inputs[0].dtype),
        output_accumulates_(spec.output_accumulates) {
    if (e.empty()) return;
    MatrixProductSpec product{.m = e.out,
                              .n = e.in,
                              .k = e.rows,
                              .transpose_a = true,
                              .factors = type_,
                              .result = DType::f32};
    // Algorithm files have fp32 without a pitch, which such GEMMs share with 1x1 convolutions.
    if (type_ == DType::bf16 || e.padded_out != e.out) product.a_pitch = e.padded_out;
    if (type_ == DType::bf16 && e.out >= kManyOutputs && e.out % 8 != 0 && e.padded_out % 8 == 0) {
      first_rows_ = e.out / kRowTile * kRowTile;
      product.m = e.out - first_rows_;
      last_rows_ = make_matrix_product(device, product, describe(spec));
      product.m = first_rows_;
    }
    product_ = make_split_product(device, product, describe(spec));
  }

  std::size_t workspace_bytes() const override {
    return sums_offset() + (bias_ ? column_sums_workspace(e_.rows, e_.out) : 0);
  }
  void run(const RunState& state) override {
    const bool accumulate = accumulates(output_accumulates_, 0, state);
    if (product_)
      product_->run({.a = input<void>(1),
                     .b = input<void>(0),
                     .c = output(0),
                     .accumulate = accumulate,
                     .workspace = workspace<void>()});
    else if (!accumulate)
      check(cudaMemsetAsync(output(0), 0, std::size_t(e_.in * e_.out) * sizeof(float), stream()),
            "linear_bwd_weights");
    if (last_rows_)
      last_rows_->run({.a = input<std::uint16_t>(1) + first_rows_,
                       .b = input<void>(0),
                       .c = output(0) + first_rows_ * e_.in,
                       .accumulate = accumulate,
                       .workspace = workspace<void>()});
    if (bias_)
      column_sums(device(),
                  {.values = input<void>(1),
                   .type = type_,
                   .rows = e_.rows,
                   .columns = e_.out,
                   .sums = output(1),
                   .accumulate = accumulates(output_accumulates_, 1, state),
                   .workspace = workspace<void>(sums_offset())});
  }

 private:
  std::size_t sums_offset() const {
    if (!product_) return 0;
    return aligned(
        std::max(product_->workspace_bytes(), last_rows_ ? last_rows_->workspace_bytes() : 0));
  }

  LinearExtents e_;
  bool bias_;
  DType type_;
  std::vector<bool> output_accumulates_;
  std::unique_ptr<MatrixProduct> product_;
  /// Note [Weight gradients of many outputs]: product_ is of the rows before these.
  std::int64_t first_rows_ = 0;
  std::unique_ptr<MatrixProduct> last_rows_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_bwd_data_kernel(const ops::LinearBwdData& op,
                                                    const KernelSpec& spec,
                                                    const Device& device) {
  const LinearExtents e{rows_of(spec.inputs[0]),
                        spec.outputs[0].shape[-1],
                        spec.inputs[1].shape[0],
                        spec.inputs[0].shape[-1]};
  if (auto small = make_small_linear_bwd_data(e, op.before(), spec, device)) return small;
  return std::make_unique<LinearBwdDataKernel>(e, op.before(), spec, device);
}

std::unique_ptr<Kernel> make_linear_bwd_weights_kernel(const ops::LinearBwdWeights& op,
                                                       const KernelSpec& spec,
                                                       const Device& device) {
  const LinearExtents e{rows_of(spec.inputs[0]),
                        spec.inputs[0].shape[-1],
                        spec.outputs[0].shape[0],
                        spec.inputs[1].shape[-1]};
  if (auto small = make_small_linear_bwd_weights(e, op.bias(), spec, device)) return small;
  return std::make_unique<LinearBwdWeightsKernel>(e, op.bias(), spec, device);
}

}  // namespace lockstep::cuda
