// SPDX-License-Identifier: Apache-2.0
#include "core/exec/packed_copies.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {
namespace {

constexpr const char* kWhat = "packed weight copies";

}  // namespace

std::size_t rounded_bytes(const FlatSpace& space) {
  return std::size_t(space.elems) * sizeof(std::uint16_t);
}

int PackedCopies::request(Backend& backend, int parameter, const PackedCopy& copy) {
  const auto [position, is_new] =
      numbers_.try_emplace({parameter, copy.format}, int(entries_.size()));
  if (is_new) {
    Entry entry;
    entry.bytes = copy.bytes;
    if (lies_in_rounded(copy)) {
      if (!rounded_) rounded_ = backend.allocate(rounded_bytes(*space_), kWhat);
      entry.data = rounded() + space_->of(parameter).offset;
    } else {
      entry.memory = backend.allocate(copy.bytes, kWhat);
      entry.data = entry.memory->data();
    }
    entries_.push_back(std::move(entry));
  }
  LOCKSTEP_ASSERT(entries_[std::size_t(position->second)].bytes >= copy.bytes);
  return position->second;
}

void PackedCopies::drop_from(int first) {
  LOCKSTEP_ASSERT(first >= 0 && first <= count());
  std::erase_if(numbers_, [first](const auto& number) { return number.second >= first; });
  entries_.resize(std::size_t(first));
}

std::size_t PackedCopies::bytes_to_add(
    const std::vector<std::pair<int, PackedCopy>>& copies) const {
  std::map<std::pair<int, std::string>, std::size_t> added;
  bool adds_rounded = false;
  for (const auto& [parameter, copy] : copies) {
    if (numbers_.contains({parameter, copy.format})) continue;
    if (lies_in_rounded(copy))
      adds_rounded = !rounded_;
    else
      added[{parameter, copy.format}] = copy.bytes;
  }
  std::size_t bytes = adds_rounded ? rounded_bytes(*space_) : 0;
  for (const auto& [key, size] : added) bytes += size;
  return bytes;
}

void PackedCopies::offer_packer(int number, Kernel& kernel, int index) {
  Entry& entry = entries_[std::size_t(number)];
  if (entry.packer != nullptr) return;
  entry.packer = &kernel;
  entry.index = index;
}

void PackedCopies::invalidate() {
  for (Entry& entry : entries_) entry.stale = true;
}

void PackedCopies::invalidate_but_rounded() {
  for (Entry& entry : entries_)
    if (entry.memory) entry.stale = true;
}

void PackedCopies::refresh_rounded() {
  for (Entry& entry : entries_) {
    if (entry.memory || !entry.stale) continue;
    entry.packer->pack(entry.index);
    entry.stale = false;
  }
}

int PackedCopies::stale(const std::vector<int>& numbers) const {
  return int(std::ranges::count_if(
      numbers, [&](int number) { return entries_[std::size_t(number)].stale; }));
}

void PackedCopies::mark_fresh(const std::vector<int>& numbers) {
  for (int number : numbers) entries_[std::size_t(number)].stale = false;
}

void PackedCopies::refresh(const std::vector<int>& numbers) {
  for (int number : numbers) {
    Entry& entry = entries_[std::size_t(number)];
    if (!entry.stale) continue;
    entry.packer->pack(entry.index);
    entry.stale = false;
  }
}

std::size_t PackedCopies::bytes() const {
  std::size_t sum = rounded_ ? rounded_->bytes() : 0;
  for (const Entry& entry : entries_)
    if (entry.memory) sum += entry.memory->bytes();
  return sum;
}

std::size_t PackedCopies::bytes_of(int parameter) const {
  std::size_t sum = 0;
  for (auto at = numbers_.lower_bound({parameter, ""});
       at != numbers_.end() && at->first.first == parameter;
       ++at)
    sum += entries_[std::size_t(at->second)].bytes;
  return sum;
}

}  // namespace lockstep
