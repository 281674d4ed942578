// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/libraries/cudnn/cudnn_library.h"
#include "lockstep/error.h"

namespace lockstep::cuda {

/// A descriptor of something that cuDNN does not do.
class CudnnUnsupported : public Error {
 public:
  using Error::Error;
};

/// One of cuDNN's backend descriptors: created, given its attributes, then finalized. Keeps the
/// descriptors that it refers to, since cuDNN does not say that it copies them. Functions throw
/// what check(cudnnStatus_t) throws, with `what`.
class CudnnDescriptor {
 public:
  CudnnDescriptor(cudnnBackendDescriptorType_t type, const std::string& what);

  cudnnBackendDescriptor_t get() const { return held_->descriptor; }

  template <std::size_t kCount>
  void set(cudnnBackendAttributeName_t name, const std::array<std::int64_t, kCount>& values) {
    set(name, CUDNN_TYPE_INT64, kCount, values.data());
  }
  void set(cudnnBackendAttributeName_t name, std::int64_t value) {
    set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, float value) {
    set(name, CUDNN_TYPE_FLOAT, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, bool value) {
    set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
    set(name, CUDNN_TYPE_HANDLE, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    const cudnnBackendDescriptor_t descriptor = value.get();
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
    keep(value);
  }
  void set(cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type,
           std::size_t count,
           const void* values);

  /// `part` lives as long as this.
  void keep(const CudnnDescriptor& part) { held_->parts.push_back(part.held_); }

  /// Throws CudnnUnsupported.
  void finalize();
  /// The same, but false where cuDNN does not support what is described.
  bool finalize_if_supported();
  /// For one of several proposals: where cuDNN refuses this one, its reason; otherwise nothing. See
  /// refuses().
  std::string finalize_or_reason();

  std::int64_t get_int64(cudnnBackendAttributeName_t name) const;
  /// How many elements the attribute has.
  std::int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;
  /// Up to `count` elements into `values`; returns how many there are. Elements that are
  /// descriptors exist already, and are filled.
  std::int64_t get(cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type,
                   std::size_t count,
                   void* values) const;

 private:
  struct Held {
    cudnnBackendDescriptor_t descriptor = nullptr;
    std::vector<std::shared_ptr<Held>> parts;
    ~Held() {
      if (descriptor != nullptr) cudnn().cudnnBackendDestroyDescriptor(descriptor);
    }
  };

  std::string what_;
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
};

/// NHWC tensors as cuDNN describes them: extents in the order N, C, H, W, strides of NHWC.
struct CudnnTensor {
  std::int64_t id;
  cudnnDataType_t type;
  std::int64_t n, c, h, w;
  bool is_virtual = false;  ///< lives in a kernel's registers alone
};
CudnnDescriptor describe(const CudnnTensor& tensor, const std::string& what);

}  // namespace lockstep::cuda
