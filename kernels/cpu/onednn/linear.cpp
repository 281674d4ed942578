// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/fp32_fallback_kernel.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cpu/onednn/dnnl_common.h"
#include "kernels/cpu/onednn/linear_bf16.h"
#include "kernels/cpu/small_gemm.h"

// Note [Two GEMMs]
//
// Weights of up to kSmallWeights elements are left to small_gemm. It works without blocking for
// caches, so that larger ones belong to oneDNN: its sgemm packs both operands as it goes, and needs
// no packed copy whose refresh would cost as much as a third of a GEMM with 64 samples. The
// choice depends on the weight alone, so a sample gets the same bits in a small GEMM whatever
// the batch.
namespace lockstep::cpu {
namespace {

constexpr std::int64_t kSmallWeights = 512 * 512;

bool is_small(const LinearExtents& e) { return e.in * e.out <= kSmallWeights || e.rows == 0; }

/// C = alpha op(A) op(B) + beta C through oneDNN, row-major as C writes it.
struct LargeGemm {
  std::string what;
  char transpose_a, transpose_b;
  std::int64_t m, n, k;
  std::int64_t a_row, b_row, c_row;

  void run(const float* a, const float* b, float beta, float* c) const {
    translate(what, [&] {
      const dnnl::status status =
          dnnl::sgemm(transpose_a, transpose_b, m, n, k, 1.0f, a, a_row, b, b_row, beta, c, c_row);
      if (status != dnnl::status::success) throw dnnl::error(dnnl_status_t(status), "sgemm failed");
    });
  }
};

class LargeLinear final : public Kernel {
 public:
  LargeLinear(const LinearExtents& e, bool bias, const KernelSpec& spec)
      : bias_(bias),
        gemm_{describe(spec), 'N', 'T', e.rows, e.out, e.in, e.in, e.in, e.out_pitch} {}

  void bind(const KernelBuffers& buffers) override {
    x_ = static_cast<const float*>(buffers.inputs[0]);
    weight_ = static_cast<const float*>(buffers.inputs[1]);
    if (bias_) bias_values_ = static_cast<const float*>(buffers.inputs[2]);
    y_ = static_cast<float*>(buffers.outputs[0]);
  }
  void run(const RunState&) override {
    if (bias_)
      for (std::int64_t i = 0; i < gemm_.m; ++i)
        std::copy_n(bias_values_, gemm_.n, y_ + i * gemm_.c_row);
    gemm_.run(x_, weight_, bias_ ? 1.0f : 0.0f, y_);
    zero_padding(y_, gemm_.m, gemm_.n, gemm_.c_row);
  }

 private:
  bool bias_;
  LargeGemm gemm_;
  const float *x_ = nullptr, *weight_ = nullptr, *bias_values_ = nullptr;
  float* y_ = nullptr;
};

class LargeLinearBwdData final : public Kernel {
 public:
  LargeLinearBwdData(const LinearExtents& e, const KernelSpec& spec)
      : gemm_{describe(spec), 'N', 'N', e.rows, e.in, e.out, e.out_pitch, e.in, e.in} {}

  void bind(const KernelBuffers& buffers) override {
    dy_ = static_cast<const float*>(buffers.inputs[0]);
    weight_ = static_cast<const float*>(buffers.inputs[1]);
    dx_ = static_cast<float*>(buffers.outputs[0]);
  }
  void run(const RunState&) override { gemm_.run(dy_, weight_, 0.0f, dx_); }

 private:
  LargeGemm gemm_;
  const float *dy_ = nullptr, *weight_ = nullptr;
  float* dx_ = nullptr;
};

class LargeLinearBwdWeights final : public Kernel {
 public:
  LargeLinearBwdWeights(const LinearExtents& e, bool bias, const KernelSpec& spec)
      : bias_(bias),
        accumulates_(spec.output_accumulates),
        gemm_{describe(spec), 'T', 'N', e.out, e.in, e.rows, e.out_pitch, e.in, e.in} {
    accumulates_.resize(2);
  }

  void bind(const KernelBuffers& buffers) override {
    x_ = static_cast<const float*>(buffers.inputs[0]);
    dy_ = static_cast<const float*>(buffers.inputs[1]);
    dw_ = static_cast<float*>(buffers.outputs[0]);
    if (bias_) db_ = static_cast<float*>(buffers.outputs[1]);
  }
  void run(const RunState& state) override {
    gemm_.run(dy_, x_, state.accumulate && accumulates_[0] ? 1.0f : 0.0f, dw_);
    if (bias_) sums_(db_, dy_, gemm_.k, gemm_.m, state.accumulate && accumulates_[1]);
  }

 private:
  bool bias_;
  std::vector<bool> accumulates_;
  LargeGemm gemm_;
  const float *x_ = nullptr, *dy_ = nullptr;
  float *dw_ = nullptr, *db_ = nullptr;
  decltype(&baseline::column_sums<float>) sums_ = LOCKSTEP_CHOOSE(column_sums<float>);
};

bool use_bf16_products(const LinearExtents& e) {
  return bf16_products() != Bf16Products::widened && e.rows * e.in * e.out > 0;
}

}  // namespace

std::unique_ptr<Kernel> make_library_linear(const LinearExtents& e,
                                            bool bias,
                                            const KernelSpec& spec) {
  if (has_bf16(spec)) return use_bf16_products(e) ? make_bf16_linear(e, bias, spec) : nullptr;
  return is_small(e) ? nullptr : std::make_unique<LargeLinear>(e, bias, spec);
}

std::unique_ptr<Kernel> make_library_linear_bwd_data(const LinearExtents& e,
                                                     const KernelSpec& spec) {
  if (has_bf16(spec)) return use_bf16_products(e) ? make_bf16_linear_bwd_data(e, spec) : nullptr;
  return is_small(e) ? nullptr : std::make_unique<LargeLinearBwdData>(e, spec);
}

std::unique_ptr<Kernel> make_library_linear_bwd_weights(const LinearExtents& e,
                                                        bool bias,
                                                        const KernelSpec& spec) {
  if (has_bf16(spec))
    return use_bf16_products(e) ? make_bf16_linear_bwd_weights(e, bias, spec) : nullptr;
  return is_small(e) ? nullptr : std::make_unique<LargeLinearBwdWeights>(e, bias, spec);
}

}  // namespace lockstep::cpu
