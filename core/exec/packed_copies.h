// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/backend.h"
#include "core/plan/flat_space.h"

namespace lockstep {

/// Bytes of all parameters rounded to bf16.
std::size_t rounded_bytes(const FlatSpace& space);

/// Derived copies of parameters in the formats that kernels compute with, shared by all programs
/// that want the same (parameter, format), refreshed once after each change of the parameters.
class PackedCopies {
 public:
  /// Each copy has memory of its own.
  PackedCopies() = default;
  /// Copies of kRoundedFormat lie in one array of bf16, at the parameters' offsets in `space`, so
  /// that optimizer updates can write them: as long as fix_rounded() was not called, or where the
  /// array was there by then.
  explicit PackedCopies(const FlatSpace& space) : space_(&space) {}

  /// Allocates or finds the copy; returns its number. Throws OutOfMemory.
  int request(Backend& backend, int parameter, const PackedCopy& copy);
  void* data(int number) { return entries_[std::size_t(number)].data; }
  /// `kernel` (its copy `index`) can refresh `number`; the first one offered is kept.
  void offer_packer(int number, Kernel& kernel, int index);

  /// From now on updates write rounded(), or know that there is none: then copies that are asked
  /// for later have memory of their own, or invalidate_but_rounded() would take them for fresh.
  void fix_rounded() { rounded_is_fixed_ = true; }
  /// The copies that there are: their numbers are those below it.
  int count() const { return int(entries_.size()); }
  /// Forgets the copies from index `first` on, and frees their memory. They must not be in use.
  void drop_from(int first);
  /// What request() would allocate for all of `copies`, each with its parameter.
  std::size_t bytes_to_add(const std::vector<std::pair<int, PackedCopy>>& copies) const;

  /// The array of rounded parameters; null: no program asked for one.
  std::uint16_t* rounded() { return rounded_ ? rounded_->as<std::uint16_t>() : nullptr; }

  /// The parameters changed: every copy is stale.
  void invalidate();
  /// An update changed the parameters and wrote rounded(): the other copies are stale.
  void invalidate_but_rounded();
  /// Refreshes what lies in rounded(), where the parameters changed in another way.
  void refresh_rounded();
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
    std::unique_ptr<DeviceBuffer> memory;  // null where it lies in rounded_
    void* data = nullptr;
    std::size_t bytes = 0;
    Kernel* packer = nullptr;
    int index = 0;
    bool stale = true;
  };
  bool lies_in_rounded(const PackedCopy& copy) const {
    return space_ != nullptr && copy.format == kRoundedFormat && (rounded_ || !rounded_is_fixed_);
  }

  const FlatSpace* space_ = nullptr;
  bool rounded_is_fixed_ = false;
  std::unique_ptr<DeviceBuffer> rounded_;
  std::vector<Entry> entries_;
  std::map<std::pair<int, std::string>, int> numbers_;
};

}  // namespace lockstep
