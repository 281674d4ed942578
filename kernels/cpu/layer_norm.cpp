// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/layer_norm.h"

#include "core/ops/layer_norm.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class LayerNormKernel final : public BoundKernel {
 public:
  LayerNormKernel(const ops::LayerNorm& op, const KernelSpec& spec)
      : bias_(op.bias()),
        residual_(op.residual()),
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
                 .eps = eps_});
  }

 private:
  decltype(&baseline::layer_norm<T>) layer_norm_ = LOCKSTEP_CHOOSE(layer_norm<T>);
  bool bias_, residual_;
  float eps_;
  std::int64_t rows_, width_;
};

template <typename T>
class LayerNormBwdKernel final : public BoundKernel {
 public:
  LayerNormBwdKernel(const ops::LayerNormBwd& op, const KernelSpec& spec)
      : bias_(op.bias()),
        residual_(op.residual()),
        adds_gamma_(spec.output_accumulates[1]),
        adds_beta_(op.bias() && spec.output_accumulates[2]),
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
                     .accumulate_beta = adds_beta_ && state.accumulate});
  }

 private:
  decltype(&baseline::layer_norm_bwd<T>) layer_norm_bwd_ = LOCKSTEP_CHOOSE(layer_norm_bwd<T>);
  bool bias_, residual_, adds_gamma_, adds_beta_;
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

}  // namespace lockstep::cpu
