// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/linear/small_linear_kernels.h"
#include "kernels/cuda/step/block_step.cuh"
#include "kernels/cuda/step/fused_small_kernels.h"

// The work is in small_linear.cuh. Products are exact in fp32, also where tf32 is allowed.
namespace lockstep::cuda {
namespace {

bool is_small(const LinearExtents& e, const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::f32 && e.padded_out == e.out &&
         is_small_layer(e.rows, e.in, e.out);
}

class SmallLinearKernel final : public SmallKernel {
 public:
  SmallLinearKernel(const LinearExtents& e, const ops::Linear& op, const Device& device)
      : SmallKernel(device), bias_(op.bias()), keeps_(op.keeps_input_of_activation()) {
    work_.rows = std::int32_t(e.rows);
    work_.in = std::int32_t(e.in);
    work_.out = std::int32_t(e.out);
    work_.activation = op.activation();
  }
  BlockStep step() const override {
    BlockStep step;
    step.head.kind = BlockStep::Kind::linear;
    step.linear = work_;
    step.linear.x = input(0);
    step.linear.weight = input(1);
    step.linear.bias = bias_ ? input(2) : nullptr;
    step.linear.y = output(0);
    step.linear.before = keeps_ ? output(1) : nullptr;
    return step;
  }

 private:
  bool bias_, keeps_;
  SmallLinear work_{};
};

class SmallLinearBwdDataKernel final : public SmallKernel {
 public:
  SmallLinearBwdDataKernel(const LinearExtents& e, ops::Activation before, const Device& device)
      : SmallKernel(device) {
    work_.rows = std::int32_t(e.rows);
    work_.in = std::int32_t(e.in);
    work_.out = std::int32_t(e.out);
    work_.activation = before;
  }
  BlockStep step() const override {
    BlockStep step;
    step.head.kind = BlockStep::Kind::linear_bwd_data;
    step.linear_bwd_data = work_;
    step.linear_bwd_data.dy = input(0);
    step.linear_bwd_data.weight = input(1);
    step.linear_bwd_data.h = work_.activation == ops::Activation::none ? nullptr : input(2);
    step.linear_bwd_data.dx = output(0);
    return step;
  }

 private:
  SmallLinearBwdData work_{};
};

class SmallLinearBwdWeightsKernel final : public SmallKernel {
 public:
  SmallLinearBwdWeightsKernel(const LinearExtents& e,
                              bool bias,
                              const KernelSpec& spec,
                              const Device& device)
      : SmallKernel(device), bias_(bias) {
    work_.rows = std::int32_t(e.rows);
    work_.in = std::int32_t(e.in);
    work_.out = std::int32_t(e.out);
    const std::vector<bool>& accumulates = spec.output_accumulates;
    work_.weight_accumulates = !accumulates.empty() && accumulates[0];
    work_.bias_accumulates = accumulates.size() > 1 && accumulates[1];
  }
  BlockStep step() const override {
    BlockStep step;
    step.head.kind = BlockStep::Kind::linear_bwd_weights;
    step.linear_bwd_weights = work_;
    step.linear_bwd_weights.x = input(0);
    step.linear_bwd_weights.dy = input(1);
    step.linear_bwd_weights.dweight = output(0);
    step.linear_bwd_weights.dbias = bias_ ? output(1) : nullptr;
    return step;
  }

 private:
  bool bias_;
  SmallLinearBwdWeights work_{};
};

}  // namespace

std::unique_ptr<Kernel> make_small_linear(const LinearExtents& e,
                                          const ops::Linear& op,
                                          const KernelSpec& spec,
                                          const Device& device) {
  if (!is_small(e, spec)) return nullptr;
  return std::make_unique<SmallLinearKernel>(e, op, device);
}

std::unique_ptr<Kernel> make_small_linear_bwd_data(const LinearExtents& e,
                                                   ops::Activation before,
                                                   const KernelSpec& spec,
                                                   const Device& device) {
  if (!is_small(e, spec)) return nullptr;
  return std::make_unique<SmallLinearBwdDataKernel>(e, before, device);
}

std::unique_ptr<Kernel> make_small_linear_bwd_weights(const LinearExtents& e,
                                                      bool bias,
                                                      const KernelSpec& spec,
                                                      const Device& device) {
  if (!is_small(e, spec)) return nullptr;
  return std::make_unique<SmallLinearBwdWeightsKernel>(e, bias, spec, device);
}

}  // namespace lockstep::cuda
