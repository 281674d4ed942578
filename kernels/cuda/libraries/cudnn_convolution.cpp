// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/base/error.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/libraries/cudnn_plan.h"

// Convolutions are graphs of cuDNN's backend interface: one operation, or two where a bias is added
// to the fp32 sums before they are stored. cuDNN numbers groups by the channels of the weight.
namespace lockstep::cuda {
namespace {

enum TensorId : std::int64_t { kX = 1, kWeight, kY, kBias, kSum };

cudnnDataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

CudnnDescriptor describe_window(const ConvolutionSpec& spec, const std::string& what) {
  using Pair = std::array<std::int64_t, 2>;
  CudnnDescriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, what);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const Pair padding{spec.padding_h, spec.padding_w};
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  window.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t(2));
  window.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Pair{1, 1});
  window.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Pair{spec.stride_h, spec.stride_w});
  window.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding);
  window.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding);
  window.finalize();
  return window;
}

/// What a convolution's three passes are called in cuDNN.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t window, x, weight, y, alpha, beta;
};

PassNames names_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionPass::data_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionPass::weight_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  throw InternalError("unknown pass of a convolution");
}

CudnnDescriptor describe_pass(const ConvolutionSpec& spec,
                              const CudnnDescriptor& x,
                              const CudnnDescriptor& weight,
                              const CudnnDescriptor& y,
                              const std::string& what) {
  const PassNames names = names_of(spec.pass);
  CudnnDescriptor operation(names.operation, what);
  operation.set(names.window, describe_window(spec, what));
  operation.set(names.x, x);
  operation.set(names.weight, weight);
  operation.set(names.y, y);
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, 0.0f);
  operation.finalize();
  return operation;
}

/// y = sum + bias
CudnnDescriptor describe_bias(const CudnnDescriptor& sum,
                              const CudnnDescriptor& bias,
                              const CudnnDescriptor& y,
                              const std::string& what) {
  CudnnDescriptor add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  add.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  add.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  add.finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  operation.finalize();
  return operation;
}

std::unique_ptr<CudnnPlan> plan_of(cudnnHandle_t handle,
                                   const ConvolutionSpec& spec,
                                   bool rounded_factors,
                                   const std::string& what) {
  const cudnnDataType_t type = type_of(spec.type);
  const cudnnDataType_t weight_type =
      spec.pass == ConvolutionPass::weight_gradient ? type_of(spec.weight_gradient) : type;
  const auto x = describe(CudnnTensor{kX, type, spec.n, spec.c, spec.h, spec.w}, what);
  const auto weight = describe(
      CudnnTensor{kWeight, weight_type, spec.k, spec.c / spec.groups, spec.kernel_h, spec.kernel_w},
      what);
  const CudnnTensor result{kY, type, spec.n, spec.k, spec.out_h, spec.out_w};
  const auto y = describe(result, what);
  if (!spec.bias) {
    const auto operation = describe_pass(spec, x, weight, y, what);
    return choose_plan(handle, {&operation}, rounded_factors, what);
  }
  CudnnTensor in_registers = result;
  in_registers.id = kSum;
  in_registers.type = CUDNN_DATA_FLOAT;
  in_registers.is_virtual = true;
  const auto sum = describe(in_registers, what);
  const auto bias = describe(CudnnTensor{kBias, CUDNN_DATA_FLOAT, 1, spec.k, 1, 1}, what);
  const auto operation = describe_pass(spec, x, weight, sum, what);
  const auto addition = describe_bias(sum, bias, y, what);
  return choose_plan(handle, {&operation, &addition}, rounded_factors, what);
}

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
  auto plan = plan_of(handle.get(), spec, rounded_factors, what);
  if (!plan) return nullptr;
  return std::make_unique<CudnnConvolution>(handle, std::move(plan), spec.bias, what);
}

}  // namespace lockstep::cuda
