// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dry_backend.h"

#include <cstdint>

#include "core/base/check.h"

namespace lockstep {
namespace {

class DryBuffer final : public DeviceBuffer {
 public:
  DryBuffer(std::uintptr_t address, std::size_t bytes)
      : data_(reinterpret_cast<std::byte*>(address)), bytes_(bytes) {}
  std::byte* data() override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

class DryKernel final : public Kernel {
 public:
  void bind(const KernelBuffers&) override {}
  void run(const RunState&) override {}
};

}  // namespace

std::unique_ptr<DeviceBuffer> DryBackend::allocate(std::size_t bytes, const std::string& what) {
  constexpr std::uintptr_t kEnd = std::uintptr_t{1} << 62, kAlignment = 4096;
  if (bytes == 0) return std::make_unique<DryBuffer>(0, 0);
  LOCKSTEP_CHECK(bytes < kEnd - next_ - kAlignment,
                 OutOfMemory,
                 "{}: {} bytes are more than there are addresses for",
                 what,
                 bytes);
  auto buffer = std::make_unique<DryBuffer>(next_, bytes);
  next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return buffer;
}

std::unique_ptr<Kernel> DryBackend::make_kernel(const KernelSpec&) {
  return std::make_unique<DryKernel>();
}

DevicePeaks DryBackend::measure_peaks() {
  throw InternalError("a device without memory has no speed");
}

}  // namespace lockstep
