// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "kernels/cpu/bf16.h"

namespace lockstep::cpu {

/// `bytes`, so that what comes after them in a workspace starts on a cache line.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// A kernel that keeps its buffers and names them by position.
class BoundKernel : public Kernel {
 public:
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
  T* packed(std::size_t i) const {
    return static_cast<T*>(buffers_.packed[i]);
  }
  template <typename T>
  T* workspace(std::size_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(buffers_.workspace) + offset_bytes);
  }

 private:
  KernelBuffers buffers_;
};

/// A KernelOf<T> for the type T that elements of `dtype`, f32 or bf16, are stored as.
template <template <typename> class KernelOf, typename... Args>
std::unique_ptr<Kernel> make_stored(DType dtype, const Args&... args) {
  if (dtype == DType::bf16) return std::make_unique<KernelOf<Bf16>>(args...);
  return std::make_unique<KernelOf<float>>(args...);
}

}  // namespace lockstep::cpu
