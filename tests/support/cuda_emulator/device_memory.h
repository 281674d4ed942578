// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/cuda_emulator/access_record.h"

namespace lockstep::emulator {

/// A stretch of memory whose accesses are noted, in words as fine as its accesses are.
class Region {
 public:
  Region(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool holds(const void* address, std::size_t bytes) const {
    const std::size_t offset = offset_of(address);
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  /// Wraps around for what lies before it.
  std::size_t offset_of(const void* address) const {
    return std::uintptr_t(address) - std::uintptr_t(data_);
  }

  /// Untouched: the first `bytes`.
  void forget(std::size_t bytes) {
    std::fill_n(cells_.begin(), std::min(cells_.size(), (bytes >> shift_) + 1), Cell{});
  }
  /// The first cell for which `note(Cell&)` is true, or null; of the words in [offset, + bytes).
  template <typename Note>
  Cell* find_cell(std::size_t offset, std::size_t bytes, Note note) {
    if ((offset | bytes) & ((std::size_t{1} << shift_) - 1) || cells_.empty())
      refine(offset | bytes);
    const std::size_t end = (offset + bytes) >> shift_;
    for (std::size_t i = offset >> shift_; i < end; ++i)
      if (note(cells_[i])) return &cells_[i];
    return nullptr;
  }

 private:
  /// Makes words so small that `extent` is a multiple of them.
  void refine(std::size_t extent);

  std::byte* data_;
  std::size_t bytes_;
  int shift_ = 2;  ///< a word has 2^shift_ bytes
  std::vector<Cell> cells_;
};

/// What cudaMalloc gave out.
class DeviceMemory {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 30;

  /// Null where less is left.
  void* allocate(std::size_t bytes);
  /// False: no such allocation.
  bool free(void* data);
  std::size_t free_bytes() const { return kBytes - used_; }
  /// The allocation that holds `address`, or null.
  Region* find(const void* address);
  bool holds(const void* address, std::size_t bytes);
  /// "byte 4100 of an allocation of 4096 bytes", after the nearest one.
  std::string describe(const void* address) const;

 private:
  std::map<std::uintptr_t, Region> regions_;
  Region* last_ = nullptr;  ///< that find() returned
  std::size_t used_ = 0;
};

DeviceMemory& device_memory();
/// Held while the device does something: it does one thing at a time.
std::mutex& device_in_use();

}  // namespace lockstep::emulator
