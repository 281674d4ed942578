// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/activation_kernel.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/elementwise.cuh"
#include "lockstep/error.h"

// The activation after a GEMM, or GELU's gradient after one: map() over the GEMM's result,
// in place or into the second buffer. Bytes: the result read and written once, and for the gradient
// GELU's input read. Bound by memory.
namespace lockstep::cuda {
namespace {

template <typename T>
class ActivationKernel final : public Kernel {
 public:
  ActivationKernel(std::unique_ptr<Kernel> product,
                   ops::Activation activation,
                   bool kept_input,
                   std::int64_t elems,
                   const Device& device)
      : product_(std::move(product)),
        apply_(apply_of(activation)),
        kept_input_(kept_input),
        elems_(elems),
        device_(device) {}

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
    apply_(y_, x_, elems_, device_.compute);
  }

 private:
  using Apply = void (*)(T* y, const T* x, std::int64_t elems, cudaStream_t stream);

  template <typename Function>
  static void apply(T* y, const T* x, std::int64_t elems, cudaStream_t stream) {
    map("activation", Function{}, y, elems, stream, x);
  }
  static Apply apply_of(ops::Activation activation) {
    switch (activation) {
      case ops::Activation::relu:
        return apply<Relu>;
      case ops::Activation::gelu_erf:
        return apply<GeluErf<T>>;
      case ops::Activation::gelu_tanh:
        return apply<GeluTanh<T>>;
      case ops::Activation::none:
        break;
    }
    throw InternalError("activation kernel without an activation");
  }

  std::unique_ptr<Kernel> product_;
  Apply apply_;
  bool kept_input_;
  std::int64_t elems_;
  const Device& device_;
  T* y_ = nullptr;
  T* x_ = nullptr;
};

template <typename T>
void apply_gelu_gradient(
    ops::Activation gelu, T* d, const T* x, std::int64_t elems, cudaStream_t stream) {
  const T* const dy = d;
  if (gelu == ops::Activation::gelu_erf)
    map("gelu_erf_bwd", GeluErfGradient<T>{}, d, elems, stream, dy, x);
  else
    map("gelu_tanh_bwd", GeluTanhGradient<T>{}, d, elems, stream, dy, x);
}

}  // namespace

void apply_gelu_gradient(const Device& device,
                         ops::Activation gelu,
                         void* d,
                         const void* x,
                         DType type,
                         std::int64_t elems) {
  if (type == DType::bf16)
    apply_gelu_gradient(
        gelu, static_cast<Bf16*>(d), static_cast<const Bf16*>(x), elems, device.compute);
  else
    apply_gelu_gradient(
        gelu, static_cast<float*>(d), static_cast<const float*>(x), elems, device.compute);
}

std::unique_ptr<Kernel> wrap_activation(std::unique_ptr<Kernel> product,
                                        ops::Activation activation,
                                        bool kept_input,
                                        const TensorType& output,
                                        const Device& device) {
  if (activation == ops::Activation::none) return product;
  const std::int64_t elems = output.elems();
  if (output.dtype == DType::bf16)
    return std::make_unique<ActivationKernel<Bf16>>(
        std::move(product), activation, kept_input, elems, device);
  return std::make_unique<ActivationKernel<float>>(
      std::move(product), activation, kept_input, elems, device);
}

}  // namespace lockstep::cuda
