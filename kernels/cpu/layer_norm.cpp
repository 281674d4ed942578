// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/layer_norm.h"

#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class LayerNormKernel final : public BoundKernel {
 public:
  LayerNormKernel(const ops::LayerNorm& op, const KernelSpec& spec)
      : LayerNormKernel(op, op.bias(), true, spec) {}
  LayerNormKernel(const ops::RmsNorm& op, const KernelSpec& spec)
      : LayerNormKernel(op, false, false, spec) {}
  template <typename Op>
  LayerNormKernel(const Op& op, bool bias, bool centered, const KernelSpec& spec)
      : bias_(bias),
        residual_(op.residual()),
        centered_(centered),
        eps_(op.eps()),
        rows_(spec.outputs[1].shape[0]),
        width_(spec.inputs[0].shape[-1]) {}

  void run(const RunState&) override {
    layer_norm_({.x = input<T>(0),
                 .gamma = input(1),
                 .beta = bias_ ? input(2) : nullptr,
                 .residual = residual_ ? input<T>(bias_ ? 3 : 2) : nullptr,
                 .y = output<T>(0),
                 .saved = output(1),
                 .sum = residual_ ? output<T>(2) : nullptr,
                 .rows = rows_,
                 .width = width_,
                 .eps = eps_,
                 .centered = centered_});
  }

 private:
  decltype(&baseline::layer_norm<T>) layer_norm_ = LOCKSTEP_CHOOSE(layer_norm<T>);
  bool bias_, residual_, centered_;
  float eps_;
  std::int64_t rows_, width_;
};

template <typename T>
class LayerNormBwdKernel final : public BoundKernel {
 public:
  LayerNormBwdKernel(const ops::LayerNormBwd& op, const KernelSpec& spec)
      : LayerNormBwdKernel(op.bias(), op.residual(), true, spec) {}
  LayerNormBwdKernel(const ops::RmsNormBwd& op, const KernelSpec& spec)
      : LayerNormBwdKernel(false, op.residual(), false, spec) {}
  LayerNormBwdKernel(bool bias, bool residual, bool centered, const KernelSpec& spec)
      : bias_(bias),
        residual_(residual),
        centered_(centered),
        adds_gamma_(spec.output_accumulates[1]),
        adds_beta_(bias && spec.output_accumulates[2]),
        rows_(spec.inputs[3].shape[0]),
        width_(spec.inputs[0].shape[-1]) {}

  std::size_t workspace_bytes() const override { return 2 * std::size_t(width_) * sizeof(float); }
  void run(const RunState& state) override {
    layer_norm_bwd_({.h = input<T>(0),
                     .dy = input<T>(1),
                     .gamma = input(2),
                     .saved = input(3),
                     .dh_in = residual_ ? input<T>(4) : nullptr,
                     .dh = output<T>(0),
                     .dgamma = output(1),
                     .dbeta = bias_ ? output(2) : nullptr,
                     .workspace = workspace<float>(),
                     .rows = rows_,
                     .width = width_,
                     .accumulate_gamma = adds_gamma_ && state.accumulate,
                     .accumulate_beta = adds_beta_ && state.accumulate,
                     .centered = centered_});
  }

 private:
  decltype(&baseline::layer_norm_bwd<T>) layer_norm_bwd_ = LOCKSTEP_CHOOSE(layer_norm_bwd<T>);
  bool bias_, residual_, centered_, adds_gamma_, adds_beta_;
  std::int64_t rows_, width_;
};

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_kernel(const ops::LayerNorm& op, const KernelSpec& spec) {
  return make_stored<LayerNormKernel>(spec.inputs[0].dtype, op, spec);
}

std::unique_ptr<Kernel> make_layer_norm_bwd_kernel(const ops::LayerNormBwd& op,
                                                   const KernelSpec& spec) {
  return make_stored<LayerNormBwdKernel>(spec.inputs[0].dtype, op, spec);
}

std::unique_ptr<Kernel> make_rms_norm_kernel(const ops::RmsNorm& op, const KernelSpec& spec) {
  return make_stored<LayerNormKernel>(spec.inputs[0].dtype, op, spec);
}

std::unique_ptr<Kernel> make_rms_norm_bwd_kernel(const ops::RmsNormBwd& op,
                                                 const KernelSpec& spec) {
  return make_stored<LayerNormBwdKernel>(spec.inputs[0].dtype, op, spec);
}

}  // namespace lockstep::cpu
