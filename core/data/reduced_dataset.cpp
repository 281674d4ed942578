// SPDX-License-Identifier: Apache-2.0
#include "core/data/reduced_dataset.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::data {

ReducedDataset::ReducedDataset(std::shared_ptr<const Dataset> whole,
                               const std::vector<std::int64_t>& skipped)
    : ForwardingDataset(std::move(whole)) {
  LOCKSTEP_ASSERT(std::ssize(skipped) < inner().size());
  for (const std::int64_t index : skipped) {
    const std::int64_t gap = index - std::ssize(gaps_);
    LOCKSTEP_ASSERT(index >= 0 && index < inner().size() && (gaps_.empty() || gap >= gaps_.back()));
    gaps_.push_back(gap);
  }
}

std::int64_t ReducedDataset::original(std::int64_t index) const {
  return index + (std::ranges::upper_bound(gaps_, index) - gaps_.begin());
}

std::string ReducedDataset::describe() const {
  return fmt::format("{}, without {} of its samples", inner().describe(), gaps_.size());
}

std::uint64_t ReducedDataset::fingerprint() const {
  std::uint64_t sum = inner().fingerprint();
  for (const std::int64_t gap : gaps_) sum = sum * 31 + std::uint64_t(gap) + 1;
  return sum;
}

}  // namespace lockstep::data
