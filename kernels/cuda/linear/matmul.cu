// SPDX-License-Identifier: Apache-2.0
#include "core/ops/matmul.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/linear/matrix_product.h"

// The library's GEMM with its alpha and beta: matrix_product.h. Bound by the tensor cores where
// factors may be rounded to tf32.
namespace lockstep::cuda {
namespace {

class MatmulKernel final : public BoundKernel {
 public:
  MatmulKernel(const ops::Matmul& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        attrs_(op.attrs()),
        product_(make_matrix_product(device,
                                     {.m = spec.outputs[0].shape[0],
                                      .n = spec.outputs[0].shape[1],
                                      .k = op.inner(spec.inputs),
                                      .transpose_a = attrs_.transpose_a,
                                      .transpose_b = attrs_.transpose_b},
                                     describe(spec))) {}

  std::size_t workspace_bytes() const override { return product_->workspace_bytes(); }
  void run(const RunState&) override {
    product_->run({.a = input<void>(0),
                   .b = input<void>(1),
                   .c = output<void>(0),
                   .alpha = attrs_.alpha,
                   .beta = attrs_.beta,
                   .summand = attrs_.beta != 0 ? input<void>(2) : nullptr,
                   .workspace = workspace<void>()});
  }

 private:
  ops::Matmul::Attrs attrs_;
  std::unique_ptr<MatrixProduct> product_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_kernel(const ops::Matmul& op,
                                           const KernelSpec& spec,
                                           const Device& device) {
  return std::make_unique<MatmulKernel>(op, spec, device);
}

}  // namespace lockstep::cuda
