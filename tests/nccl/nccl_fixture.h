// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/exec/backend.h"
#include "parallel/comm/nccl/nccl_communicator.h"
#include "tests/nccl/fake_nccl.h"
#include "tests/support/cuda_emulator/runtime_api.h"
#include "tests/support/cuda_emulator/streams.h"
#include "tests/support/mpi_world.h"
#include "tests/support/test_backend.h"

namespace lockstep::testing {

/// The device of this rank.
inline Backend& device() {
  static const std::unique_ptr<Backend> backend = make_test_backend();
  return *backend;
}

/// The played library, which is opened by the first call.
inline FakeNccl& fake() {
  static FakeNccl* const found = [] {
    void* library = dlopen(FAKE_NCCL, RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(dlerror());
    FakeNccl* played = reinterpret_cast<FakeNccl* (*)()>(dlsym(library, "fake_nccl"))();
    played->is_device = [](const void* memory, std::size_t bytes) {
      const auto* last = static_cast<const std::byte*>(memory) + bytes - 1;
      return !device().is_host_memory(memory) && !device().is_host_memory(last);
    };
    played->take = [](std::size_t bytes) {
      void* memory = nullptr;
      cudaMalloc(&memory, bytes);
      return memory;
    };
    played->give_back = [](void* memory) { cudaFree(memory); };
    set_nccl_variables();
    played->capture_of = emulator::capture_number;
    return played;
  }();
  return *found;
}

inline std::unique_ptr<Communicator> make_nccl(const NcclOptions& options = {.join_s = 30},
                                               Communicator& host = mpi_world()) {
  fake();
  return make_nccl_communicator(host, device(), options);
}

/// An array in device memory.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values)
      : elems_(values.size()), memory_(device().allocate(bytes(), "test")) {
    set(values);
  }
  void set(const std::vector<T>& values) {
    device().copy_to_device(memory_->data(), values.data(), bytes());
  }
  T* data() { return memory_->template as<T>(); }
  std::size_t bytes() const { return elems_ * sizeof(T); }
  /// Waits for the device.
  std::vector<T> get() {
    std::vector<T> values(elems_);
    device().copy_to_host(values.data(), memory_->data(), bytes());
    return values;
  }

 private:
  std::size_t elems_;
  std::unique_ptr<DeviceBuffer> memory_;
};

}  // namespace lockstep::testing
