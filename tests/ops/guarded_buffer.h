// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/env.h"
#include "core/exec/backend.h"

namespace lockstep::test {

/// Memory of a backend for one tensor, aligned to 64 bytes as kernels are promised, and where asked
/// for between two red zones. The zones are NaN as f32, so that a read outside shows in the
/// results. With LOCKSTEP_CLEAR=0 nothing else is written before a kernel runs, so that a tool sees
/// what is read and was not written.
class GuardedBuffer {
 public:
  /// `shift_bytes` moves the tensor by a multiple of 64 bytes.
  GuardedBuffer(Backend& backend, std::size_t bytes, std::size_t shift_bytes, bool red_zones)
      : backend_(&backend),
        bytes_(bytes),
        offset_((red_zones ? kGuard : 0) + shift_bytes),
        memory_(backend.allocate(offset_ + bytes + (red_zones ? kGuard : 0), "a test's tensor")) {
    copy_in(0, std::vector<std::byte>(offset_, kSentinel));
    fill_with_nan();
    const std::size_t end = offset_ + bytes;
    copy_in(end, std::vector<std::byte>(memory_->bytes() - end, kSentinel));
  }

  std::byte* data() { return memory_->data() + offset_; }
  void fill_from(const std::vector<std::byte>& content) { copy_in(offset_, content); }
  /// All bits set: NaN as f32.
  void fill_with_nan() {
    if (env().clear != "0") copy_in(offset_, std::vector<std::byte>(bytes_, std::byte{0xff}));
  }
  std::vector<std::byte> content() const { return copy_out(offset_, bytes_); }

  bool guards_intact() const {
    const std::size_t end = offset_ + bytes_;
    for (const auto& zone : {copy_out(0, offset_), copy_out(end, memory_->bytes() - end)})
      if (!std::all_of(zone.begin(), zone.end(), [](std::byte b) { return b == kSentinel; }))
        return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 512;
  static constexpr std::byte kSentinel{0xff};

  void copy_in(std::size_t offset, const std::vector<std::byte>& content) {
    if (!content.empty())
      backend_->copy_to_device(memory_->data() + offset, content.data(), content.size());
  }
  std::vector<std::byte> copy_out(std::size_t offset, std::size_t bytes) const {
    std::vector<std::byte> content(bytes);
    if (bytes > 0) backend_->copy_to_host(content.data(), memory_->data() + offset, bytes);
    return content;
  }

  Backend* backend_;
  std::size_t bytes_;
  std::size_t offset_;
  std::unique_ptr<DeviceBuffer> memory_;
};

}  // namespace lockstep::test
