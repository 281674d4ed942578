// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/convolution_graph.h"

#include <array>

#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

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

}  // namespace

std::vector<CudnnDescriptor> describe_convolution(const ConvolutionSpec& spec,
                                                  const std::string& what) {
  const cudnnDataType_t type = type_of(spec.type);
  const auto type_in = [&](ConvolutionPass stored_by) {
    return spec.pass == stored_by ? type_of(spec.result) : type;
  };
  const auto x = describe(CudnnTensor{kX, type, spec.n, spec.c, spec.h, spec.w}, what);
  const auto weight = describe(CudnnTensor{kWeight,
                                           type_in(ConvolutionPass::weight_gradient),
                                           spec.k,
                                           spec.c / spec.groups,
                                           spec.kernel_h,
                                           spec.kernel_w},
                               what);
  const CudnnTensor result{
      kY, type_in(ConvolutionPass::forward), spec.n, spec.k, spec.out_h, spec.out_w};
  const auto y = describe(result, what);
  if (!spec.bias) return {describe_pass(spec, x, weight, y, what)};
  CudnnTensor in_registers = result;
  in_registers.id = kSum;
  in_registers.type = CUDNN_DATA_FLOAT;
  in_registers.is_virtual = true;
  const auto sum = describe(in_registers, what);
  const auto bias = describe(CudnnTensor{kBias, CUDNN_DATA_FLOAT, 1, spec.k, 1, 1}, what);
  return {describe_pass(spec, x, weight, sum, what), describe_bias(sum, bias, y, what)};
}

}  // namespace lockstep::cuda
