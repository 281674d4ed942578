// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/kernel.h"

namespace lockstep::cpu {

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
  T* workspace(std::size_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(buffers_.workspace) + offset_bytes);
  }

 private:
  KernelBuffers buffers_;
};

}  // namespace lockstep::cpu
