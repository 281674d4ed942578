// SPDX-License-Identifier: Apache-2.0
#include "core/data/zero_filled_dataset.h"

#include <cstring>

#include "lockstep/data/preprocessing.h"
#include "lockstep/error.h"

namespace lockstep::data {

std::set<std::int64_t> ZeroFilledDataset::unreadable() const {
  const std::lock_guard lock(mutex_);
  return unreadable_;
}

std::string ZeroFilledDataset::first_unreadable() const {
  const std::lock_guard lock(mutex_);
  return first_unreadable_;
}

bool ZeroFilledDataset::is_unreadable(std::int64_t index) const {
  const std::lock_guard lock(mutex_);
  return unreadable_.contains(index);
}

void ZeroFilledDataset::load(std::uint64_t epoch,
                             std::int64_t index,
                             std::byte* input,
                             std::byte* target) const {
  try {
    whole_->load(epoch, index, input, target);
  } catch (const DataError& problem) {
    std::memset(input, 0, spec().input.bytes());
    std::memset(target, 0, spec().target.bytes());
    const std::lock_guard lock(mutex_);
    unreadable_.insert(index);
    if (index == *unreadable_.begin()) first_unreadable_ = problem.what();
  }
}

Preprocessing ZeroFilledDataset::preprocessing() const { return whole_->preprocessing(); }

}  // namespace lockstep::data
