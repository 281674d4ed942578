// SPDX-License-Identifier: Apache-2.0
#include "core/ops/matmul.h"

#include <algorithm>

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cpu/onednn/dnnl_common.h"

// oneDNN's sgemm, which packs both factors as it goes, and adds to what the result holds.
namespace lockstep::cpu {
namespace {

class LibraryMatmul final : public BoundKernel {
 public:
  LibraryMatmul(const ops::Matmul& op, const KernelSpec& spec)
      : attrs_(op.attrs()),
        what_(describe(spec)),
        m_(spec.outputs[0].shape[0]),
        n_(spec.outputs[0].shape[1]),
        k_(op.inner(spec.inputs)),
        a_row_(spec.inputs[0].shape[1]),
        b_row_(spec.inputs[1].shape[1]) {}

  void run(const RunState&) override {
    if (attrs_.beta != 0) std::copy_n(input(2), m_ * n_, output(0));
    translate(what_, [&] {
      const dnnl::status status = dnnl::sgemm(attrs_.transpose_a ? 'T' : 'N',
                                              attrs_.transpose_b ? 'T' : 'N',
                                              m_,
                                              n_,
                                              k_,
                                              attrs_.alpha,
                                              input(0),
                                              a_row_,
                                              input(1),
                                              b_row_,
                                              attrs_.beta,
                                              output(0),
                                              n_);
      if (status != dnnl::status::success) throw dnnl::error(dnnl_status_t(status), "sgemm failed");
    });
  }

 private:
  ops::Matmul::Attrs attrs_;
  std::string what_;
  std::int64_t m_, n_, k_, a_row_, b_row_;
};

}  // namespace

std::unique_ptr<Kernel> make_library_matmul(const ops::Matmul& op, const KernelSpec& spec) {
  return std::make_unique<LibraryMatmul>(op, spec);
}

}  // namespace lockstep::cpu
