// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/libraries/convolution_graph.h"
#include "kernels/cuda/libraries/cudnn_plan.h"

namespace lockstep::cuda {
namespace {

class CudnnConvolution final : public Convolution {
 public:
  CudnnConvolution(std::shared_ptr<cudnnContext> handle,
                   std::unique_ptr<CudnnPlan> plan,
                   bool bias,
                   const std::string& what)
      : what_(what), handle_(std::move(handle)), plan_(std::move(plan)), bias_(bias) {}

  std::size_t workspace_bytes() const override { return plan_->workspace_bytes; }

  void run(const ConvolutionArguments& arguments) override {
    const Pointers pointers{arguments.x,
                            arguments.weight,
                            arguments.y,
                            const_cast<float*>(arguments.bias),
                            arguments.workspace};
    if (!bound_ || pointers != pointers_) bind(pointers);
    check(cudnn().cudnnBackendExecute(handle_.get(), plan_->plan.get(), bound_->get()), what_);
  }

 private:
  using Pointers = std::array<void*, 5>;

  /// Once in the life of a program, whose buffers stay where they are.
  void bind(const Pointers& pointers) {
    const std::array<std::int64_t, 4> ids{kX, kWeight, kY, kBias};
    const std::size_t tensors = bias_ ? 4 : 3;
    auto pack = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, what_);
    pack->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, tensors, ids.data());
    pack->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, tensors, pointers.data());
    pack->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &pointers[4]);
    pack->finalize();
    bound_ = std::move(pack);
    pointers_ = pointers;
  }

  std::string what_;
  std::shared_ptr<cudnnContext> handle_;
  std::unique_ptr<CudnnPlan> plan_;
  bool bias_;
  Pointers pointers_{};
  std::unique_ptr<CudnnDescriptor> bound_;
};

}  // namespace

std::unique_ptr<Convolution> make_convolution(const Device& device,
                                              const ConvolutionSpec& spec,
                                              const std::string& what) {
  const auto handle = cudnn_handle(device);
  const bool rounded_factors = spec.type == DType::bf16 || device.tf32;
  try {
    auto plan = choose_plan(handle.get(), describe_convolution(spec, what), rounded_factors, what);
    if (!plan) return nullptr;
    return std::make_unique<CudnnConvolution>(handle, std::move(plan), spec.bias, what);
  } catch (const CudnnUnsupported&) {
    return nullptr;
  }
}

}  // namespace lockstep::cuda
