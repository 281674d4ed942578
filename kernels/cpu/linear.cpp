// SPDX-License-Identifier: Apache-2.0
#include "core/ops/linear.h"

#include <utility>

#include "kernels/cpu/activation_kernel.h"
#include "kernels/cpu/fp32_fallback_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cpu/small_gemm.h"

// Products that the matrix library does not take go through small_gemm: tens of nanoseconds of
// overhead, and 100 to 115 GFLOP/s on a Zen 4 core (peak about 120) from 8 samples on.
namespace lockstep::cpu {
namespace {

class SmallLinear final : public Kernel {
 public:
  SmallLinear(const LinearExtents& e, bool bias)
      : bias_(bias),
        gemm_{.m = e.rows,
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
  decltype(&baseline::small_gemm) product_ = LOCKSTEP_CHOOSE(small_gemm);
  decltype(&baseline::transpose_to_panels) transpose_ = LOCKSTEP_CHOOSE(transpose_to_panels);
};

class SmallLinearBwdData final : public Kernel {
 public:
  explicit SmallLinearBwdData(const LinearExtents& e)
      : gemm_{.m = e.rows,
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
  decltype(&baseline::small_gemm) product_ = LOCKSTEP_CHOOSE(small_gemm);
};

class SmallLinearBwdWeights final : public Kernel {
 public:
  SmallLinearBwdWeights(const LinearExtents& e, bool bias, const KernelSpec& spec)
      : bias_(bias),
        accumulates_(spec.output_accumulates),
        gemm_{.m = e.out,
              .n = e.in,
              .k = e.rows,
              .a_row = 1,
              .a_col = e.out_pitch,
              .b_row = e.in,
              .c_row = e.in} {
    accumulates_.resize(2);
  }

  void bind(const KernelBuffers& buffers) override {
    gemm_.b = static_cast<const float*>(buffers.inputs[0]);
    gemm_.a = static_cast<const float*>(buffers.inputs[1]);
    gemm_.c = static_cast<float*>(buffers.outputs[0]);
    if (bias_) db_ = static_cast<float*>(buffers.outputs[1]);
  }
  void run(const RunState& state) override {
    product_(gemm_, state.accumulate && accumulates_[0]);
    if (bias_) sums_(db_, gemm_.a, gemm_.k, gemm_.m, state.accumulate && accumulates_[1]);
  }

 private:
  bool bias_;
  std::vector<bool> accumulates_;
  SmallGemm gemm_;
  float* db_ = nullptr;
  decltype(&baseline::small_gemm) product_ = LOCKSTEP_CHOOSE(small_gemm);
  decltype(&baseline::column_sums<float>) sums_ = LOCKSTEP_CHOOSE(column_sums<float>);
};

/// Rows of [N, ..., features].
std::int64_t rows(const TensorType& type) {
  return Shape(type.shape.dims().first(std::size_t(type.shape.rank() - 1))).elems();
}

}  // namespace

std::unique_ptr<Kernel> make_linear_kernel(const ops::Linear& op, const KernelSpec& spec) {
  if (op.activation() != ops::Activation::none)
    return make_with_activation(
        spec, op.activation(), op.keeps_input_of_activation(), [&](const KernelSpec& product) {
          return make_linear_kernel(ops::Linear(op.bias()), product);
        });
  const LinearExtents e{rows(spec.inputs[0]),
                        spec.inputs[0].shape[-1],
                        spec.inputs[1].shape[0],
                        spec.outputs[0].shape[-1]};
  if (auto kernel = make_library_linear(e, op.bias(), spec)) return kernel;
  if (has_bf16(spec))
    return make_fp32_fallback_kernel(
        spec, 1, [&](const KernelSpec& wide) { return make_linear_kernel(op, wide); });
  return std::make_unique<SmallLinear>(e, op.bias());
}

std::unique_ptr<Kernel> make_linear_bwd_data_kernel(const ops::LinearBwdData& op,
                                                    const KernelSpec& spec) {
  if (op.before() != ops::Activation::none) {
    KernelSpec product = spec;
    product.inputs.resize(2);
    return wrap_gelu_gradient(
        make_linear_bwd_data_kernel(ops::LinearBwdData(), product), op.before(), spec.outputs[0]);
  }
  const LinearExtents e{rows(spec.inputs[0]),
                        spec.outputs[0].shape[-1],
                        spec.inputs[1].shape[0],
                        spec.inputs[0].shape[-1]};
  if (auto kernel = make_library_linear_bwd_data(e, spec)) return kernel;
  if (has_bf16(spec))
    return make_fp32_fallback_kernel(
        spec, 1, [&](const KernelSpec& wide) { return make_linear_bwd_data_kernel(op, wide); });
  return std::make_unique<SmallLinearBwdData>(e);
}

std::unique_ptr<Kernel> make_linear_bwd_weights_kernel(const ops::LinearBwdWeights& op,
                                                       const KernelSpec& spec) {
  const LinearExtents e{rows(spec.inputs[0]),
                        spec.inputs[0].shape[-1],
                        spec.outputs[0].shape[0],
                        spec.inputs[1].shape[-1]};
  if (auto kernel = make_library_linear_bwd_weights(e, op.bias(), spec)) return kernel;
  if (has_bf16(spec))
    return make_fp32_fallback_kernel(
        spec, -1, [&](const KernelSpec& wide) { return make_linear_bwd_weights_kernel(op, wide); });
  return std::make_unique<SmallLinearBwdWeights>(e, op.bias(), spec);
}

}  // namespace lockstep::cpu
