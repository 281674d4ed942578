// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace lockstep::test {

/// Memory for one tensor between two red zones, aligned to 64 bytes as kernels are promised. The
/// zones are NaN as f32, so that a read outside shows in the results.
class GuardedBuffer {
 public:
  /// `shift_bytes` moves the tensor by a multiple of 64 bytes.
  GuardedBuffer(std::size_t bytes, std::size_t shift_bytes)
      : bytes_(bytes), memory_(bytes + shift_bytes + 2 * kGuard + kAlignment, kSentinel) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    offset_ = (kAlignment - address % kAlignment) % kAlignment + kGuard + shift_bytes;
  }

  std::byte* data() { return memory_.data() + offset_; }
  void fill_from(const std::vector<std::byte>& content) {
    std::copy(content.begin(), content.end(), data());
  }
  /// All bits set: NaN as f32.
  void fill_with_nan() { std::fill_n(data(), bytes_, std::byte{0xff}); }
  std::vector<std::byte> content() { return {data(), data() + bytes_}; }

  bool guards_intact() const {
    const auto is_sentinel = [](std::byte b) { return b == kSentinel; };
    const auto begin = memory_.begin() + std::ptrdiff_t(offset_);
    return std::all_of(memory_.begin(), begin, is_sentinel) &&
           std::all_of(begin + std::ptrdiff_t(bytes_), memory_.end(), is_sentinel);
  }

 private:
  static constexpr std::size_t kGuard = 512, kAlignment = 4096;
  static constexpr std::byte kSentinel{0xff};

  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::size_t offset_ = 0;
};

}  // namespace lockstep::test
