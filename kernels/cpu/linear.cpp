// SPDX-License-Identifier: Apache-2.0
#include "core/ops/linear.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/activation_kernel.h"
#include "kernels/cpu/dnnl_common.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear_bf16.h"
#include "kernels/cpu/small_gemm.h"
#include "kernels/cpu/widened_kernel.h"

// Note [Two matrix products]
//
// Weights of up to kSmallWeights elements go through small_gemm: tens of nanoseconds of overhead,
// and 100 to 115 GFLOP/s on a Zen 4 core (peak about 120) from 8 samples on. It works without
// blocking for caches, so that larger weights belong to oneDNN: its sgemm packs both operands as it
// goes, and needs no packed copy whose refresh would cost as much as a third of a product with 64
// samples. The choice depends on the weight alone, so a sample gets the same bits in a small
// product whatever the batch.
namespace lockstep::cpu {
namespace {

constexpr std::int64_t kSmallWeights = 512 * 512;

struct ProductExtents {
  std::int64_t samples, in, out;
  std::int64_t out_pitch;  ///< elements from a row of y, or dy, to the next
  bool small() const { return in * out <= kSmallWeights || samples == 0; }
};

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

class SmallLinear final : public Kernel {
 public:
  SmallLinear(const ProductExtents& e, bool bias)
      : bias_(bias),
        gemm_{.m = e.samples,
              .n = e.out,
              .k = e.in,
              .a_row = e.in,
              .b_row = kPanel,
              .c_row = e.out_pitch,
              .b_panel = e.in * kPanel} {}

  std::vector<PackedCopy> packed_copies() const override {
    return {{1, "linear.wt.panels", std::size_t(panels_elems(gemm_.k, gemm_.n)) * sizeof(float)}};
  }
  void bind(const KernelBuffers& buffers) override {
    gemm_.a = static_cast<const float*>(buffers.inputs[0]);
    weight_ = static_cast<const float*>(buffers.inputs[1]);
    if (bias_) gemm_.bias = static_cast<const float*>(buffers.inputs[2]);
    packed_ = static_cast<float*>(buffers.packed[0]);
    gemm_.b = packed_;
    gemm_.c = static_cast<float*>(buffers.outputs[0]);
  }
  void pack(int) override { transpose_(packed_, weight_, gemm_.k, gemm_.n); }
  void run(const RunState&) override {
    product_(gemm_, false);
    zero_padding(gemm_.c, gemm_.m, gemm_.n, gemm_.c_row);
  }

 private:
  bool bias_;
  SmallGemm gemm_;
  const float* weight_ = nullptr;
  float* packed_ = nullptr;
  decltype(&avx2::small_gemm) product_ = LOCKSTEP_CHOOSE(small_gemm);
  decltype(&avx2::transpose_to_panels) transpose_ = LOCKSTEP_CHOOSE(transpose_to_panels);
};

class LargeLinear final : public Kernel {
 public:
  LargeLinear(const ProductExtents& e, bool bias, const KernelSpec& spec)
      : bias_(bias),
        gemm_{describe(spec), 'N', 'T', e.samples, e.out, e.in, e.in, e.in, e.out_pitch} {}

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

class SmallLinearBwdData final : public Kernel {
 public:
  explicit SmallLinearBwdData(const ProductExtents& e)
      : gemm_{.m = e.samples,
              .n = e.in,
              .k = e.out,
              .a_row = e.out_pitch,
              .b_row = e.in,
              .c_row = e.in} {}

  void bind(const KernelBuffers& buffers) override {
    gemm_.a = static_cast<const float*>(buffers.inputs[0]);
    gemm_.b = static_cast<const float*>(buffers.inputs[1]);
    gemm_.c = static_cast<float*>(buffers.outputs[0]);
  }
  void run(const RunState&) override { product_(gemm_, false); }

 private:
  SmallGemm gemm_;
  decltype(&avx2::small_gemm) product_ = LOCKSTEP_CHOOSE(small_gemm);
};

class LargeLinearBwdData final : public Kernel {
 public:
  LargeLinearBwdData(const ProductExtents& e, const KernelSpec& spec)
      : gemm_{describe(spec), 'N', 'N', e.samples, e.in, e.out, e.out_pitch, e.in, e.in} {}

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

class LinearBwdWeightsKernel final : public Kernel {
 public:
  LinearBwdWeightsKernel(const ProductExtents& e, bool bias, const KernelSpec& spec)
      : small_(e.small()),
        bias_(bias),
        accumulates_(spec.output_accumulates),
        gemm_{.m = e.out,
              .n = e.in,
              .k = e.samples,
              .a_row = 1,
              .a_col = e.out_pitch,
              .b_row = e.in,
              .c_row = e.in},
        large_{describe(spec), 'T', 'N', e.out, e.in, e.samples, e.out_pitch, e.in, e.in} {
    accumulates_.resize(2);
  }

  void bind(const KernelBuffers& buffers) override {
    gemm_.b = static_cast<const float*>(buffers.inputs[0]);
    gemm_.a = static_cast<const float*>(buffers.inputs[1]);
    gemm_.c = static_cast<float*>(buffers.outputs[0]);
    if (bias_) db_ = static_cast<float*>(buffers.outputs[1]);
  }
  void run(const RunState& state) override {
    const bool accumulate = state.accumulate && accumulates_[0];
    if (small_)
      product_(gemm_, accumulate);
    else
      large_.run(gemm_.a, gemm_.b, accumulate ? 1.0f : 0.0f, gemm_.c);
    if (bias_) sums_(db_, gemm_.a, gemm_.k, gemm_.m, state.accumulate && accumulates_[1]);
  }

 private:
  bool small_, bias_;
  std::vector<bool> accumulates_;
  SmallGemm gemm_;
  LargeGemm large_;
  float* db_ = nullptr;
  decltype(&avx2::small_gemm) product_ = LOCKSTEP_CHOOSE(small_gemm);
  decltype(&avx2::column_sums<float>) sums_ = LOCKSTEP_CHOOSE(column_sums<float>);
};

/// Rows of [N, ..., features].
std::int64_t rows(const TensorType& type) {
  return Shape(type.shape.dims().first(std::size_t(type.shape.rank() - 1))).elems();
}

LinearExtents bf16_extents(const ProductExtents& e) {
  return {.rows = e.samples, .in = e.in, .out = e.out, .out_pitch = e.out_pitch};
}

bool use_bf16_products(const ProductExtents& e) {
  return bf16_products() != Bf16Products::widened && e.samples * e.in * e.out > 0;
}

}  // namespace

std::unique_ptr<Kernel> make_linear_kernel(const ops::Linear& op, const KernelSpec& spec) {
  if (op.activation() != ops::Activation::none)
    return make_with_activation(
        spec, op.activation(), op.keeps_input_of_activation(), [&](const KernelSpec& product) {
          return make_linear_kernel(ops::Linear(op.bias()), product);
        });
  const ProductExtents e{rows(spec.inputs[0]),
                         spec.inputs[0].shape[-1],
                         spec.inputs[1].shape[0],
                         spec.outputs[0].shape[-1]};
  if (has_bf16(spec)) {
    if (use_bf16_products(e)) return make_bf16_linear(bf16_extents(e), op.bias(), spec);
    return make_widened_kernel(
        spec, 1, [&](const KernelSpec& wide) { return make_linear_kernel(op, wide); });
  }
  if (e.small()) return std::make_unique<SmallLinear>(e, op.bias());
  return std::make_unique<LargeLinear>(e, op.bias(), spec);
}

std::unique_ptr<Kernel> make_linear_bwd_data_kernel(const ops::LinearBwdData& op,
                                                    const KernelSpec& spec) {
  if (op.before() != ops::Activation::none) {
    KernelSpec product = spec;
    product.inputs.resize(2);
    return wrap_gelu_gradient(
        make_linear_bwd_data_kernel(ops::LinearBwdData(), product), op.before(), spec.outputs[0]);
  }
  const ProductExtents e{rows(spec.inputs[0]),
                         spec.outputs[0].shape[-1],
                         spec.inputs[1].shape[0],
                         spec.inputs[0].shape[-1]};
  if (has_bf16(spec)) {
    if (use_bf16_products(e)) return make_bf16_linear_bwd_data(bf16_extents(e), spec);
    return make_widened_kernel(
        spec, 1, [&](const KernelSpec& wide) { return make_linear_bwd_data_kernel(op, wide); });
  }
  if (e.small()) return std::make_unique<SmallLinearBwdData>(e);
  return std::make_unique<LargeLinearBwdData>(e, spec);
}

std::unique_ptr<Kernel> make_linear_bwd_weights_kernel(const ops::LinearBwdWeights& op,
                                                       const KernelSpec& spec) {
  const ProductExtents e{rows(spec.inputs[0]),
                         spec.inputs[0].shape[-1],
                         spec.outputs[0].shape[0],
                         spec.inputs[1].shape[-1]};
  if (has_bf16(spec)) {
    if (use_bf16_products(e)) return make_bf16_linear_bwd_weights(bf16_extents(e), op.bias(), spec);
    return make_widened_kernel(
        spec, -1, [&](const KernelSpec& wide) { return make_linear_bwd_weights_kernel(op, wide); });
  }
  return std::make_unique<LinearBwdWeightsKernel>(e, op.bias(), spec);
}

}  // namespace lockstep::cpu
