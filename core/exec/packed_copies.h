// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/backend.h"

namespace lockstep {

/// Derived copies of parameters in the formats that kernels compute with, shared by all programs
/// that want the same (parameter, format), refreshed once after each change of the parameters.
class PackedCopies {
 public:
  /// Allocates or finds the copy; returns its number. Throws OutOfMemory.
  int request(Backend& backend, int parameter, const PackedCopy& copy);
  void* data(int number) { return entries_[std::size_t(number)].memory->data(); }
  /// `kernel` (its copy `index`) can refresh `number`; the first one offered is kept.
  void offer_packer(int number, Kernel& kernel, int index);

  /// The parameters changed: every copy is stale.
  void invalidate();
  bool has_stale(const std::vector<int>& numbers) const { return stale(numbers) > 0; }
  /// How many of `numbers` are stale.
  int stale(const std::vector<int>& numbers) const;
  /// Refreshes those of `numbers` that are stale.
  void refresh(const std::vector<int>& numbers);
  /// A graph has refreshed them.
  void mark_fresh(const std::vector<int>& numbers);

  std::size_t bytes() const;
  /// Of the copies derived from one parameter.
  std::size_t bytes_of(int parameter) const;

 private:
  struct Entry {
    std::unique_ptr<DeviceBuffer> memory;
    Kernel* packer = nullptr;
    int index = 0;
    bool stale = true;
  };
  std::vector<Entry> entries_;
  std::map<std::pair<int, std::string>, int> numbers_;
};

}  // namespace lockstep
