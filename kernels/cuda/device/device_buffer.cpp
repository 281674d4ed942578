// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/device_buffer.h"

#include <cstring>
#include <fmt/format.h>

#include "core/base/env.h"
#include "kernels/cuda/device/cuda_check.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

std::string free_memory() {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "an unknown part of the device is free";
  return fmt::format("{} of {} bytes are free", free, total);
}

class CudaBuffer final : public DeviceBuffer {
 public:
  CudaBuffer(std::size_t bytes, const std::string& what, const Device& device) : bytes_(bytes) {
    if (bytes == 0) return;
    const cudaError_t status = cudaMalloc(&data_, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw OutOfMemory(
          fmt::format("{}: {} bytes of {} wanted", what, bytes, device.name),
          "use a smaller micro-batch or model; nvidia-smi shows who else uses the device; " +
              free_memory());
    }
    check(status, what);
    if (env().clear != "0") check(cudaMemsetAsync(data_, 0, bytes, device.compute), what);
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  ~CudaBuffer() override { cudaFree(data_); }

  std::byte* data() override { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const override { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

class PinnedBuffer final : public DeviceBuffer {
 public:
  PinnedBuffer(std::size_t bytes, const std::string& what) : bytes_(bytes) {
    if (bytes == 0) return;
    const cudaError_t status = cudaMallocHost(&data_, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw OutOfMemory(fmt::format("{}: {} bytes of pinned host memory wanted", what, bytes),
                        "free memory of the host, or raise its limit of locked memory (ulimit -l)");
    }
    check(status, what);
    std::memset(data_, 0, bytes);
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer() override { cudaFreeHost(data_); }

  std::byte* data() override { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const override { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace

std::unique_ptr<DeviceBuffer> make_device_buffer(const Device& device,
                                                 std::size_t bytes,
                                                 const std::string& what) {
  return std::make_unique<CudaBuffer>(bytes, what, device);
}

std::unique_ptr<DeviceBuffer> make_pinned_buffer(std::size_t bytes, const std::string& what) {
  return std::make_unique<PinnedBuffer>(bytes, what);
}

}  // namespace lockstep::cuda
