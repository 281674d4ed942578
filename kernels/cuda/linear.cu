// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/base/error.h"
#include "core/ops/linear.h"
#include "kernels/cuda/activation_kernel.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/matrix_product.h"
#include "kernels/cuda/product_helpers.h"

// Fully connected layers are the library's matrix products (matrix_product.h), which divides the
// work itself: x, weight and y are moved once at least. Bound by the tensor cores where rows, in
// and out are all some hundreds, by memory where one of them is small. What own kernels do behind a
// product is in bias.cu, activation.cuh, convert.cu and column_sums.cu. The weight is stored
// [out, in]. With bf16 activations products read a bf16 copy of the weight, refreshed when
// parameters change; the weight's gradient is fp32.
//
// Note [Bias and activation behind a product]
//
// The library adds the bias before it rounds, if it takes one of the types at hand: fp32 first,
// then for bf16 results a copy rounded to bf16, as the weight is. Where it takes neither, the
// product is stored as fp32 and an own kernel adds the bias and rounds. GELU goes into a bf16
// product together with the bias: in training both outputs are written from the fp32 sums. So does
// GELU's gradient into the product before it in backward. In fp32 own kernels apply them, since how
// exact the library's tanh is is nowhere said; ReLU always, since the library's does not pass on
// NaN.
//
// Note [Gradients of biases]
//
// The sums of dy's columns are taken by the weight gradient's product, which reads dy anyway, where
// dy is bf16 and the library has such a product. Their order is the library's, which promises the
// same bits in every run for all its routines, and for cublasLtMatmul whatever else runs on the
// device ("Results reproducibility" in cuBLAS' manual). It cannot add them to what is there: then
// they go through the workspace. DGELU_BGRAD would round them to bf16, as what it is behind.
// Elsewhere column_sums() reads dy again.
namespace lockstep::cuda {
namespace {

struct Extents {
  std::int64_t rows, in, out;
  std::int64_t padded_out;  ///< length of the rows of y, or dy; beyond `out` they hold zeros
  bool empty() const { return rows * in * out == 0; }
};

/// The bf16 copy of the weight, with rows of zeros for the padding of y: so that extents of the
/// products, too, are multiples of what the matrix units like.
void pack_weight(const Device& device, const Extents& e, void* copy, const float* weight) {
  const std::int64_t elems = e.in * e.out;
  round_to_bf16(device, copy, weight, elems);
  if (e.padded_out == e.out) return;
  const std::size_t bytes = std::size_t((e.padded_out - e.out) * e.in) * size_in_bytes(DType::bf16);
  void* const end = static_cast<std::byte*>(copy) + std::size_t(elems) * size_in_bytes(DType::bf16);
  check(cudaMemsetAsync(end, 0, bytes, device.compute), "padding of a weight");
}

/// Rows of [N, ..., features].
std::int64_t rows(const TensorType& type) {
  return Shape(type.shape.dims().first(std::size_t(type.shape.rank() - 1))).elems();
}

class LinearKernel final : public BoundKernel {
 public:
  LinearKernel(const Extents& e, bool bias, const KernelSpec& spec, const Device& device)
      : LinearKernel(e, bias, MatrixEpilogue::bias, spec, device) {
    if (e.empty() || product_) return;
    // Rounded behind the bias, if there is one.
    result_ = bias ? DType::f32 : type_;
    product_ = make_product(MatrixEpilogue::none, DType::f32, describe(spec));
    adds_bias_ = bias;
  }

  /// Null where the library has no product with bias and GELU for this one. Where the node has a
  /// second output, it is GELU's input.
  static std::unique_ptr<Kernel> with_gelu(const Extents& e,
                                           const KernelSpec& spec,
                                           const Device& device) {
    if (e.empty() || spec.outputs[0].dtype != DType::bf16) return nullptr;
    const auto epilogue = spec.outputs.size() == 2 ? MatrixEpilogue::bias_gelu_tanh_kept
                                                   : MatrixEpilogue::bias_gelu_tanh;
    std::unique_ptr<LinearKernel> kernel(new LinearKernel(e, true, epilogue, spec, device));
    if (!kernel->product_) return nullptr;
    return kernel;
  }

  std::size_t workspace_bytes() const override {
    if (!product_) return 0;
    return sums_offset() + (sums_in_workspace() ? elems() * sizeof(float) : 0);
  }
  std::vector<PackedCopy> packed_copies() const override { return copies_; }
  void pack(int index) override {
    if (index == 0) return pack_weight(device(), e_, packed<void>(0), input(1));
    round_to_bf16(device(), packed<void>(1), input(2), e_.out);
  }

  void run(const RunState&) override {
    if (!product_) return run_empty();
    void* sums = sums_in_workspace() ? workspace<void>(sums_offset()) : output<void>(0);
    product_->run({.a = input<void>(0),
                   .b = type_ == DType::bf16 ? packed<void>(0) : input<void>(1),
                   .c = sums,
                   .bias = bias_argument(),
                   .kept = has_second_matrix(epilogue_) ? output<void>(1) : nullptr,
                   .workspace = workspace<void>()});
    if (adds_bias_) finish(sums);
  }

 private:
  /// Without a product where the library has none with `epilogue`, or where none is needed.
  LinearKernel(const Extents& e,
               bool bias,
               MatrixEpilogue epilogue,
               const KernelSpec& spec,
               const Device& device)
      : BoundKernel(device), e_(e), bias_(bias), type_(spec.inputs[0].dtype), result_(type_) {
    if (e.empty()) return;
    const std::string what = describe(spec);
    if (type_ == DType::bf16) copies_.push_back(bf16_copy(1, spec.inputs[1], e.padded_out));
    if (!bias) return;
    product_ = make_product(epilogue, DType::f32, what);
    if (product_ || type_ == DType::f32) return;
    product_ = make_product(epilogue, DType::bf16, what);
    if (product_) copies_.push_back(bf16_copy(2, spec.inputs[2]));
  }

  std::unique_ptr<MatrixProduct> make_product(MatrixEpilogue epilogue,
                                              DType bias_type,
                                              const std::string& what) {
    epilogue_ = epilogue;
    return make_matrix_product(device(),
                               {.m = e_.rows,
                                .n = e_.padded_out,
                                .k = e_.in,
                                .transpose_b = true,
                                .factors = type_,
                                .result = result_,
                                .epilogue = epilogue,
                                .bias = bias_type},
                               what);
  }

  std::size_t elems() const { return std::size_t(e_.rows * e_.padded_out); }
  bool sums_in_workspace() const { return result_ != type_; }
  std::size_t sums_offset() const { return aligned(product_->workspace_bytes()); }

  const void* bias_argument() const {
    if (!has_bias(epilogue_)) return nullptr;
    return copies_.size() == 2 ? packed<void>(1) : input<void>(2);
  }

  void finish(const void* sums) const {
    add_bias(device(),
             {.values = sums,
              .values_type = result_,
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

  Extents e_;
  bool bias_;
  DType type_, result_;  ///< of the activations, and of what the product stores
  MatrixEpilogue epilogue_ = MatrixEpilogue::none;
  bool adds_bias_ = false;  ///< after the product
  std::vector<PackedCopy> copies_;
  std::unique_ptr<MatrixProduct> product_;
};

class LinearBwdDataKernel final : public BoundKernel {
 public:
  LinearBwdDataKernel(const Extents& e,
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
  Extents e_;
  ops::Activation before_;
  DType type_;
  bool gradient_in_product_ = false;
  std::vector<PackedCopy> copies_;
  std::unique_ptr<MatrixProduct> product_;
};

class LinearBwdWeightsKernel final : public BoundKernel {
 public:
  LinearBwdWeightsKernel(const Extents& e, bool bias, const KernelSpec& spec, const Device& device)
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
                              .result = DType::f32,
                              .a_pitch = e.padded_out};
    if (bias && type_ == DType::bf16) {
      product.epilogue = MatrixEpilogue::sums_of_a;
      product_ = make_matrix_product(device, product, describe(spec));
      product.epilogue = MatrixEpilogue::none;
    }
    sums_in_product_ = product_ != nullptr;
    if (!product_) product_ = make_matrix_product(device, product, describe(spec));
  }

  std::size_t workspace_bytes() const override {
    if (!bias_) return sums_offset();
    return sums_offset() + (sums_in_product_ ? std::size_t(e_.out) * sizeof(float)
                                             : column_sums_workspace(e_.rows, e_.out));
  }
  void run(const RunState& state) override {
    const bool accumulate = accumulates(output_accumulates_, 0, state);
    const bool adds_sums = accumulates(output_accumulates_, 1, state);
    void* sums = nullptr;
    if (sums_in_product_) sums = adds_sums ? workspace<void>(sums_offset()) : output<void>(1);
    if (product_)
      product_->run({.a = input<void>(1),
                     .b = input<void>(0),
                     .c = output(0),
                     .sums = sums,
                     .accumulate = accumulate,
                     .workspace = workspace<void>()});
    else if (!accumulate)
      check(cudaMemsetAsync(output(0), 0, std::size_t(e_.in * e_.out) * sizeof(float), stream()),
            "linear_bwd_weights");
    if (!bias_) return;
    if (!sums_in_product_)
      column_sums(device(),
                  {.values = input<void>(1),
                   .type = type_,
                   .rows = e_.rows,
                   .columns = e_.out,
                   .sums = output(1),
                   .accumulate = adds_sums,
                   .workspace = workspace<void>(sums_offset())});
    else if (adds_sums)
      store_gradient(device(), output(1), sums, DType::f32, e_.out, true);
  }

 private:
  std::size_t sums_offset() const { return product_ ? aligned(product_->workspace_bytes()) : 0; }

  Extents e_;
  bool bias_;
  DType type_;
  bool sums_in_product_ = false;
  std::vector<bool> output_accumulates_;
  std::unique_ptr<MatrixProduct> product_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_kernel(const ops::Linear& op,
                                           const KernelSpec& spec,
                                           const Device& device) {
  const Extents e{rows(spec.inputs[0]),
                  spec.inputs[0].shape[-1],
                  spec.inputs[1].shape[0],
                  spec.outputs[0].shape[-1]};
  if (op.activation() == ops::Activation::none)
    return std::make_unique<LinearKernel>(e, op.bias(), spec, device);
  if (op.activation() == ops::Activation::gelu_tanh && op.bias())
    if (auto fused = LinearKernel::with_gelu(e, spec, device)) return fused;
  return make_with_activation(spec,
                              op.activation(),
                              op.keeps_input_of_activation(),
                              device,
                              [&](const KernelSpec& product) -> std::unique_ptr<Kernel> {
                                return std::make_unique<LinearKernel>(
                                    e, op.bias(), product, device);
                              });
}

std::unique_ptr<Kernel> make_linear_bwd_data_kernel(const ops::LinearBwdData& op,
                                                    const KernelSpec& spec,
                                                    const Device& device) {
  const Extents e{rows(spec.inputs[0]),
                  spec.outputs[0].shape[-1],
                  spec.inputs[1].shape[0],
                  spec.inputs[0].shape[-1]};
  return std::make_unique<LinearBwdDataKernel>(e, op.before(), spec, device);
}

std::unique_ptr<Kernel> make_linear_bwd_weights_kernel(const ops::LinearBwdWeights& op,
                                                       const KernelSpec& spec,
                                                       const Device& device) {
  const Extents e{rows(spec.inputs[0]),
                  spec.inputs[0].shape[-1],
                  spec.outputs[0].shape[0],
                  spec.inputs[1].shape[-1]};
  return std::make_unique<LinearBwdWeightsKernel>(e, op.bias(), spec, device);
}

}  // namespace lockstep::cuda
