// SPDX-License-Identifier: Apache-2.0
#include "core/ops/matmul.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cpu/small_gemm.h"

// GEMMs of the matrix library, on one thread. Without one small_gemm multiplies, which reads the
// second factor by rows: a transposed one is packed into panels first, in the workspace.
namespace lockstep::cpu {
namespace {

/// Without a matrix library.
class SmallMatmul final : public BoundKernel {
 public:
  SmallMatmul(const ops::Matmul& op, const KernelSpec& spec)
      : attrs_(op.attrs()),
        gemm_{.m = spec.outputs[0].shape[0],
              .n = spec.outputs[0].shape[1],
              .k = op.inner(spec.inputs),
              .a_row = attrs_.transpose_a ? 1 : spec.inputs[0].shape[1],
              .a_col = attrs_.transpose_a ? spec.inputs[0].shape[1] : 1,
              .b_row = spec.inputs[1].shape[1],
              .c_row = spec.outputs[0].shape[1]} {
    if (!attrs_.transpose_b) return;
    gemm_.b_row = kPanel;
    gemm_.b_panel = gemm_.k * kPanel;
  }

  std::size_t workspace_bytes() const override {
    return attrs_.transpose_b ? std::size_t(panels_elems(gemm_.k, gemm_.n)) * sizeof(float) : 0;
  }
  void run(const RunState&) override {
    gemm_.a = input(0);
    gemm_.b = attrs_.transpose_b ? workspace<float>() : input(1);
    gemm_.c = output(0);
    if (attrs_.transpose_b) transpose_(workspace<float>(), input(1), gemm_.k, gemm_.n);
    product_(gemm_, false);
    for (std::int64_t i = 0; i < gemm_.m * gemm_.n; ++i) {
      gemm_.c[i] *= attrs_.alpha;
      if (attrs_.beta != 0) gemm_.c[i] += attrs_.beta * input(2)[i];
    }
  }

 private:
  ops::Matmul::Attrs attrs_;
  SmallGemm gemm_;
  decltype(&baseline::small_gemm) product_ = LOCKSTEP_CHOOSE(small_gemm);
  decltype(&baseline::transpose_to_panels) transpose_ = LOCKSTEP_CHOOSE(transpose_to_panels);
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_kernel(const ops::Matmul& op, const KernelSpec& spec) {
  if (auto kernel = make_library_matmul(op, spec)) return kernel;
  return std::make_unique<SmallMatmul>(op, spec);
}

}  // namespace lockstep::cpu
