// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {

/// Values that never change, made once for all in this process that ask for the same, as simulated
/// ranks do; those of the last kMax keys are kept. Thread-safe.
template <typename Key, typename Value>
class SharedValues {
 public:
  static constexpr std::size_t kMax = 8;

  /// That of `key`, from make(), a shared_ptr, where there is none: the same for equal keys,
  /// whoever asks.
  template <typename Make>
  std::shared_ptr<const Value> get(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(values_, key, &Entry::first);
    if (found != values_.end()) {
      std::rotate(values_.begin(), found, found + 1);
      return values_.front().second;
    }
    std::shared_ptr<const Value> value = make();
    if (values_.size() == kMax) values_.pop_back();
    values_.insert(values_.begin(), {key, value});
    return value;
  }

 private:
  using Entry = std::pair<Key, std::shared_ptr<const Value>>;
  std::mutex mutex_;
  std::vector<Entry> values_;  // that asked for last first
};

}  // namespace lockstep
