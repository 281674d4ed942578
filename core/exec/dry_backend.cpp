// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dry_backend.h"

#include <sys/mman.h>

namespace lockstep {
namespace {

class DryBuffer final : public DeviceBuffer {
 public:
  DryBuffer(std::size_t bytes, const std::string& what) : bytes_(bytes) {
    if (bytes == 0) return;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    data_ = mmap(nullptr, bytes, PROT_NONE, kFlags, -1, 0);
    LOCKSTEP_CHECK(data_ != MAP_FAILED,
                   OutOfMemory,
                   "{}: {} bytes are more than this process has addresses for",
                   what,
                   bytes);
  }
  DryBuffer(const DryBuffer&) = delete;
  DryBuffer& operator=(const DryBuffer&) = delete;
  ~DryBuffer() override {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  std::byte* data() override { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const override { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

class DryKernel final : public Kernel {
 public:
  void bind(const KernelBuffers&) override {}
  void run(const RunState&) override {}
};

}  // namespace

std::unique_ptr<DeviceBuffer> DryBackend::allocate(std::size_t bytes, const std::string& what) {
  return std::make_unique<DryBuffer>(bytes, what);
}

std::unique_ptr<Kernel> DryBackend::make_kernel(const KernelSpec&) {
  return std::make_unique<DryKernel>();
}

DevicePeaks DryBackend::measure_peaks() {
  throw InternalError("a device without memory has no speed");
}

}  // namespace lockstep
