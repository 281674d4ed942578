// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/cudnn_descriptor.h"

#include <fmt/format.h>

namespace lockstep::cuda {

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type, const std::string& what)
    : what_(what) {
  check(cudnn().cudnnBackendCreateDescriptor(type, &held_->descriptor), what);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type,
                          std::size_t count,
                          const void* values) {
  check(cudnn().cudnnBackendSetAttribute(get(), name, type, std::int64_t(count), values), what_);
}

void CudnnDescriptor::finalize() {
  if (!finalize_if_supported())
    throw CudnnUnsupported(fmt::format("{}: cuDNN does not support it", what_));
}

bool CudnnDescriptor::finalize_if_supported() {
  const cudnnStatus_t status = cudnn().cudnnBackendFinalize(get());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check(status, what_);
  return true;
}

std::string CudnnDescriptor::finalize_or_reason() {
  const cudnnStatus_t status = cudnn().cudnnBackendFinalize(get());
  if (refuses(status)) return words_of(status);
  check(status, what_);
  return {};
}

std::int64_t CudnnDescriptor::get_int64(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  get(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

std::int64_t CudnnDescriptor::count(cudnnBackendAttributeName_t name,
                                    cudnnBackendAttributeType_t type) const {
  return get(name, type, 0, nullptr);
}

std::int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type,
                                  std::size_t count,
                                  void* values) const {
  std::int64_t found = 0;
  check(cudnn().cudnnBackendGetAttribute(get(), name, type, std::int64_t(count), &found, values),
        what_);
  return found;
}

CudnnDescriptor describe(const CudnnTensor& tensor, const std::string& what) {
  CudnnDescriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
  const auto& [id, type, n, c, h, w, is_virtual] = tensor;
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::array{n, c, h, w});
  descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, std::array{h * w * c, std::int64_t(1), w * c, c});
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t(64));
  descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  descriptor.finalize();
  return descriptor;
}

}  // namespace lockstep::cuda
