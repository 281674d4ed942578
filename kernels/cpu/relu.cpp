// SPDX-License-Identifier: Apache-2.0
#include "core/ops/relu.h"

#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

class ReluKernel final : public Kernel {
 public:
  explicit ReluKernel(std::int64_t elems) : elems_(elems) {}
  void bind(const KernelBuffers& b) override {
    x_ = static_cast<const float*>(b.inputs[0]);
    y_ = static_cast<float*>(b.outputs[0]);
  }
  void run(const RunState&) override {
    for (std::int64_t i = 0; i < elems_; ++i) y_[i] = x_[i] < 0 ? 0 : x_[i];
  }

 private:
  std::int64_t elems_;
  const float* x_ = nullptr;
  float* y_ = nullptr;
};

class ReluBwdKernel final : public Kernel {
 public:
  explicit ReluBwdKernel(std::int64_t elems) : elems_(elems) {}
  void bind(const KernelBuffers& b) override {
    dy_ = static_cast<const float*>(b.inputs[0]);
    y_ = static_cast<const float*>(b.inputs[1]);
    dx_ = static_cast<float*>(b.outputs[0]);
  }
  void run(const RunState&) override {
    for (std::int64_t i = 0; i < elems_; ++i) dx_[i] = y_[i] > 0 ? dy_[i] : 0;
  }

 private:
  std::int64_t elems_;
  const float* dy_ = nullptr;
  const float* y_ = nullptr;
  float* dx_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_relu_kernel(const ops::Relu&, const KernelSpec& spec) {
  return std::make_unique<ReluKernel>(spec.inputs[0].elems());
}

std::unique_ptr<Kernel> make_relu_bwd_kernel(const ops::ReluBwd&, const KernelSpec& spec) {
  return std::make_unique<ReluBwdKernel>(spec.inputs[0].elems());
}

}  // namespace lockstep::cpu
