// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/ops/linear.h"
#include "kernels/cuda/activation_kernel.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/linear/bias.h"
#include "kernels/cuda/linear/linear_extents.h"
#include "kernels/cuda/linear/matrix_product.h"
#include "kernels/cuda/linear/product_helpers.h"
#include "kernels/cuda/linear/small_linear_kernels.h"

// Fully connected layers are the library's GEMMs (matrix_product.h), which divides the
// work itself: x, weight and y are moved once at least. Bound by the tensor cores where rows, in
// and out are all some hundreds, by memory where one of them is small. What own kernels do after a
// GEMM is in bias.cu, activation.cuh, convert.cu and column_sums.cu. The weight is stored
// [out, in]. With bf16 activations GEMMs read a bf16 copy of the weight, refreshed when
// parameters change; the weight's gradient is fp32. Small layers in fp32 are steps of a block
// program: small_linear.cuh.
//
// Note [Bias and activation after a GEMM]
//
// The library adds the bias before it rounds. To results in bf16 it adds one in bf16 alone
// (cuBLASLt 13.1), so that a copy is rounded, as the weight is. Where it adds none, the GEMM is
// stored as fp32 and an own kernel adds the bias and rounds. GELU goes into a bf16
// GEMM together with the bias: in training both outputs are written from the fp32 sums. So does
// GELU's gradient into the GEMM before it in backward. In fp32 own kernels apply them, since how
// exact the library's tanh is is nowhere said; ReLU always, since the library's does not pass on
// NaN.
namespace lockstep::cuda {
namespace {

/// The library's GEMM for a layer, with as much of what is after it as the library takes.
struct LayerProduct {
  std::unique_ptr<MatrixProduct> product;  ///< null where there is none, or none is needed
  MatrixEpilogue epilogue = MatrixEpilogue::none;
  DType result = DType::f32;            ///< of what it stores
  bool leaves_bias = false;             ///< for an own kernel after it
  std::vector<PackedCopy> copies = {};  ///< in bf16: of the weight, and of a bias that is rounded
};

/// Chooses the GEMM for a node.
class ProductChoice {
 public:
  ProductChoice(const LinearExtents& e, bool bias, const KernelSpec& spec, const Device& device)
      : e_(e), bias_(bias), spec_(spec), device_(device), type_(spec.inputs[0].dtype) {}

  LayerProduct plain() const {
    LayerProduct chosen = with(MatrixEpilogue::bias);
    if (e_.empty() || chosen.product) return chosen;
    // Rounded after the bias, if there is one.
    chosen.result = bias_ ? DType::f32 : type_;
    make(chosen, MatrixEpilogue::none);
    chosen.leaves_bias = bias_;
    return chosen;
  }

  /// Without a GEMM where the library has none with bias and GELU for this one. Where the node
  /// has a second output, it is GELU's input.
  LayerProduct with_gelu() const {
    if (type_ != DType::bf16) return {};
    return with(spec_.outputs.size() == 2 ? MatrixEpilogue::bias_gelu_tanh_kept
                                          : MatrixEpilogue::bias_gelu_tanh);
  }

 private:
  /// Without a GEMM where the library has none with `epilogue`, or where none is needed.
  LayerProduct with(MatrixEpilogue epilogue) const {
    LayerProduct chosen{.product = nullptr, .result = type_};
    if (e_.empty()) return chosen;
    if (type_ == DType::bf16) chosen.copies.push_back(bf16_copy(1, spec_.inputs[1], e_.padded_out));
    if (!bias_) return chosen;
    make(chosen, epilogue);
    if (chosen.product && type_ == DType::bf16)
      chosen.copies.push_back(bf16_copy(2, spec_.inputs[2]));
    return chosen;
  }

  void make(LayerProduct& chosen, MatrixEpilogue epilogue) const {
    chosen.epilogue = epilogue;
    chosen.product = make_matrix_product(device_,
                                         {.m = e_.rows,
                                          .n = e_.padded_out,
                                          .k = e_.in,
                                          .transpose_b = true,
                                          .factors = type_,
                                          .result = chosen.result,
                                          .epilogue = epilogue},
                                         describe(spec_));
  }

  const LinearExtents& e_;
  bool bias_;
  const KernelSpec& spec_;
  const Device& device_;
  DType type_;
};

class LinearKernel final : public BoundKernel {
 public:
  /// `type`: of the activations.
  LinearKernel(
      const LinearExtents& e, bool bias, DType type, LayerProduct product, const Device& device)
      : BoundKernel(device), e_(e), bias_(bias), type_(type), of_(std::move(product)) {}

  std::size_t workspace_bytes() const override {
    if (!of_.product) return 0;
    return sums_offset() + (sums_in_workspace() ? elems() * sizeof(float) : 0);
  }
  std::vector<PackedCopy> packed_copies() const override { return of_.copies; }
  void pack(int index) override {
    if (index == 0) return pack_weight(device(), e_, packed<void>(0), input(1));
    round_to_bf16(device(), packed<void>(1), input(2), e_.out);
  }

  void run(const RunState&) override {
    if (!of_.product) return run_empty();
    void* sums = sums_in_workspace() ? workspace<void>(sums_offset()) : output<void>(0);
    of_.product->run({.a = input<void>(0),
                      .b = type_ == DType::bf16 ? packed<void>(0) : input<void>(1),
                      .c = sums,
                      .bias = bias_argument(),
                      .kept = has_second_matrix(of_.epilogue) ? output<void>(1) : nullptr,
                      .workspace = workspace<void>()});
    if (of_.leaves_bias) finish(sums);
  }

 private:
  std::size_t elems() const { return std::size_t(e_.rows * e_.padded_out); }
  bool sums_in_workspace() const { return of_.result != type_; }
  std::size_t sums_offset() const { return aligned(of_.product->workspace_bytes()); }

  const void* bias_argument() const {
    if (!has_bias(of_.epilogue)) return nullptr;
    return of_.copies.size() == 2 ? packed<void>(1) : input<void>(2);
  }

  void finish(const void* sums) const {
    add_bias(device(),
             {.values = sums,
              .values_type = of_.result,
              .bias = input(2),
              .y = output<void>(0),
              .type = type_,
              .rows = e_.rows,
              .columns = e_.out});
  }

  void run_empty() const {
    if (bias_ && elems() > 0) return finish(nullptr);
    check(cudaMemsetAsync(output<void>(0), 0, elems() * size_in_bytes(type_), stream()), "linear");
  }

  LinearExtents e_;
  bool bias_;
  DType type_;
  LayerProduct of_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_kernel(const ops::Linear& op,
                                           const KernelSpec& spec,
                                           const Device& device) {
  const LinearExtents e{rows_of(spec.inputs[0]),
                        spec.inputs[0].shape[-1],
                        spec.inputs[1].shape[0],
                        spec.outputs[0].shape[-1]};
  if (auto small = make_small_linear(e, op, spec, device)) return small;
  const DType type = spec.inputs[0].dtype;
  const auto make = [&](const KernelSpec& product) -> std::unique_ptr<Kernel> {
    const ProductChoice choice(e, op.bias(), product, device);
    return std::make_unique<LinearKernel>(e, op.bias(), type, choice.plain(), device);
  };
  if (op.activation() == ops::Activation::none) return make(spec);
  if (op.activation() == ops::Activation::gelu_tanh && op.bias()) {
    LayerProduct fused = ProductChoice(e, true, spec, device).with_gelu();
    if (fused.product)
      return std::make_unique<LinearKernel>(e, true, type, std::move(fused), device);
  }
  return make_with_activation(spec, op.activation(), op.keeps_input_of_activation(), device, make);
}

}  // namespace lockstep::cuda
