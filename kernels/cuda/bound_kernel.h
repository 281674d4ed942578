// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <memory>

#include "core/exec/kernel.h"
#include "kernels/cuda/device/device.h"

namespace lockstep::cuda {

/// A kernel that keeps its buffers and names them by position.
class BoundKernel : public Kernel {
 public:
  explicit BoundKernel(const Device& device) : device_(device) {}
  void bind(const KernelBuffers& buffers) final { buffers_ = buffers; }

 protected:
  template <typename T = float>
  const T* input(std::size_t i) const {
    return static_cast<const T*>(buffers_.inputs[i]);
  }
  template <typename T = float>
  T* output(std::size_t i) const {
    return static_cast<T*>(buffers_.outputs[i]);
  }
  template <typename T>
  T* workspace(std::size_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(buffers_.workspace) + offset_bytes);
  }
  template <typename T>
  T* packed(std::size_t i) const {
    return static_cast<T*>(buffers_.packed[i]);
  }
  const Device& device() const { return device_; }
  cudaStream_t stream() const { return device_.compute; }

 private:
  const Device& device_;
  KernelBuffers buffers_;
};

/// A KernelOf<T> for the type T that elements of `dtype`, f32 or bf16, are stored as.
template <template <typename> class KernelOf, typename... Args>
std::unique_ptr<Kernel> make_stored(DType dtype, const Args&... args) {
  if (dtype == DType::bf16) return std::make_unique<KernelOf<__nv_bfloat16>>(args...);
  return std::make_unique<KernelOf<float>>(args...);
}

}  // namespace lockstep::cuda
