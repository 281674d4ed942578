// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/device_memory.h"

#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <new>

namespace lockstep::emulator {
namespace {

constexpr std::align_val_t kAlignment{256};

}  // namespace

void Region::refine(std::size_t extent) {
  const int shift = extent == 0 ? shift_ : std::min(shift_, std::countr_zero(extent));
  std::vector<Cell> finer((bytes_ >> shift) + 1);
  if (!cells_.empty())
    for (std::size_t i = 0; i < finer.size(); ++i)
      if (const std::size_t from = i >> (shift_ - shift); from < cells_.size())
        finer[i] = cells_[from];
  cells_ = std::move(finer);
  shift_ = shift;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > free_bytes()) return nullptr;
  // Not rounded up, so that AddressSanitizer sees what lies after the last byte.
  void* data = ::operator new(bytes, kAlignment);
  std::memset(data, 0xff, bytes);
  regions_.insert_or_assign(std::uintptr_t(data), Region(static_cast<std::byte*>(data), bytes));
  used_ += bytes;
  last_ = nullptr;
  return data;
}

bool DeviceMemory::free(void* data) {
  const auto found = regions_.find(std::uintptr_t(data));
  if (found == regions_.end()) return false;
  used_ -= found->second.bytes();
  regions_.erase(found);
  ::operator delete(data, kAlignment);
  last_ = nullptr;
  return true;
}

Region* DeviceMemory::find(const void* address) {
  if (last_ != nullptr && last_->offset_of(address) < last_->bytes()) return last_;
  auto found = regions_.upper_bound(std::uintptr_t(address));
  if (found == regions_.begin()) return nullptr;
  Region& region = (--found)->second;
  if (region.offset_of(address) >= region.bytes()) return nullptr;
  return last_ = &region;
}

bool DeviceMemory::holds(const void* address, std::size_t bytes) {
  Region* region = find(address);
  return region != nullptr && region->holds(address, bytes);
}

std::string DeviceMemory::describe(const void* address) const {
  const auto place = std::uintptr_t(address);
  const auto after = regions_.upper_bound(place);
  const Region* nearest = nullptr;
  std::uintptr_t distance = UINTPTR_MAX;
  if (after != regions_.begin()) {
    nearest = &std::prev(after)->second;
    distance = nearest->offset_of(address);
  }
  if (after != regions_.end() && after->first - place < distance) nearest = &after->second;
  if (nearest == nullptr) return "memory that is not the device's";
  return fmt::format("byte {} of an allocation of {} bytes",
                     std::intptr_t(nearest->offset_of(address)),
                     nearest->bytes());
}

DeviceMemory& device_memory() {
  // Lives to the end: what frees device memory may be static itself.
  static DeviceMemory& memory = *new DeviceMemory;
  return memory;
}

std::mutex& device_in_use() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

}  // namespace lockstep::emulator
