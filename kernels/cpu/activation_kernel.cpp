// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/activation_kernel.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "lockstep/error.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class ActivationKernel final : public Kernel {
 public:
  ActivationKernel(std::unique_ptr<Kernel> gemm,
                   ops::Activation activation,
                   bool kept_input,
                   std::int64_t elems)
      : product_(std::move(gemm)),
        activation_(loop_of(activation)),
        kept_input_(kept_input),
        elems_(elems) {}

  std::size_t workspace_bytes() const override { return product_->workspace_bytes(); }
  std::vector<PackedCopy> packed_copies() const override { return product_->packed_copies(); }
  void pack(int index) override { product_->pack(index); }

  void bind(const KernelBuffers& buffers) override {
    y_ = static_cast<T*>(buffers.outputs[0]);
    x_ = static_cast<T*>(buffers.outputs[kept_input_ ? 1 : 0]);
    KernelBuffers inner = buffers;
    inner.outputs = {x_};
    product_->bind(inner);
  }
  void run(const RunState& state) override {
    product_->run(state);
    activation_(y_, x_, elems_);
  }

 private:
  using Loop = void (*)(T*, const T*, std::int64_t);

  static Loop loop_of(ops::Activation activation) {
    switch (activation) {
      case ops::Activation::relu:
        return LOCKSTEP_CHOOSE(relu<T>);
      case ops::Activation::gelu_erf:
        return LOCKSTEP_CHOOSE(gelu_erf<T>);
      case ops::Activation::gelu_tanh:
        return LOCKSTEP_CHOOSE(gelu_tanh<T>);
      case ops::Activation::none:
        break;
    }
    throw InternalError("activation kernel without an activation");
  }

  std::unique_ptr<Kernel> product_;
  Loop activation_;
  bool kept_input_;
  std::int64_t elems_;
  T* y_ = nullptr;
  T* x_ = nullptr;
};

template <typename T>
class GeluGradientKernel final : public Kernel {
 public:
  GeluGradientKernel(std::unique_ptr<Kernel> gemm, ops::Activation gelu, std::int64_t elems)
      : product_(std::move(gemm)),
        gradient_(gelu == ops::Activation::gelu_erf ? LOCKSTEP_CHOOSE(gelu_erf_bwd<T>)
                                                    : LOCKSTEP_CHOOSE(gelu_tanh_bwd<T>)),
        elems_(elems) {}

  std::size_t workspace_bytes() const override { return product_->workspace_bytes(); }
  std::vector<PackedCopy> packed_copies() const override { return product_->packed_copies(); }
  void pack(int index) override { product_->pack(index); }

  void bind(const KernelBuffers& buffers) override {
    gradient_buffer_ = static_cast<T*>(buffers.outputs[0]);
    x_ = static_cast<const T*>(buffers.inputs[2]);
    KernelBuffers inner = buffers;
    inner.inputs.resize(2);
    product_->bind(inner);
  }
  void run(const RunState& state) override {
    product_->run(state);
    gradient_(gradient_buffer_, gradient_buffer_, x_, elems_);
  }

 private:
  std::unique_ptr<Kernel> product_;
  decltype(&baseline::gelu_erf_bwd<T>) gradient_;
  std::int64_t elems_;
  T* gradient_buffer_ = nullptr;
  const T* x_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> wrap_gelu_gradient(std::unique_ptr<Kernel> gemm,
                                           ops::Activation gelu,
                                           const TensorType& output) {
  if (output.dtype == DType::bf16)
    return std::make_unique<GeluGradientKernel<Bf16>>(std::move(gemm), gelu, output.elems());
  return std::make_unique<GeluGradientKernel<float>>(std::move(gemm), gelu, output.elems());
}

std::unique_ptr<Kernel> wrap_activation(std::unique_ptr<Kernel> gemm,
                                        ops::Activation activation,
                                        bool kept_input,
                                        const TensorType& output) {
  if (activation == ops::Activation::none) return gemm;
  const std::int64_t elems = output.elems();
  if (output.dtype == DType::bf16)
    return std::make_unique<ActivationKernel<Bf16>>(std::move(gemm), activation, kept_input, elems);
  return std::make_unique<ActivationKernel<float>>(std::move(gemm), activation, kept_input, elems);
}

}  // namespace lockstep::cpu
