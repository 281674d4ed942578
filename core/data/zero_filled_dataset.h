// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// A dataset whose unreadable samples (DataError) are zeros, input and target, and are recorded: so
/// that a pass over all samples, on every rank, comes to its end and finds all of them at once.
/// Zeros are a valid class and a valid token; the results are not used.
class ZeroFilledDataset final : public Dataset {
 public:
  explicit ZeroFilledDataset(std::shared_ptr<const Dataset> whole) : whole_(std::move(whole)) {}

  /// Of the samples that were loaded so far, those that were unreadable; and what was wrong with
  /// the one of the lowest index (empty: none was).
  std::set<std::int64_t> unreadable() const;
  std::string first_unreadable() const;
  bool is_unreadable(std::int64_t index) const;

  const SampleSpec& spec() const override { return whole_->spec(); }
  std::int64_t size() const override { return whole_->size(); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override;
  std::string describe() const override { return whole_->describe(); }
  std::vector<std::string> class_names() const override { return whole_->class_names(); }
  Preprocessing preprocessing() const override;
  std::uint64_t decoding_bytes(int threads) const override {
    return whole_->decoding_bytes(threads);
  }
  std::uint64_t fingerprint() const override { return whole_->fingerprint(); }

 private:
  std::shared_ptr<const Dataset> whole_;
  mutable std::mutex mutex_;  // of those below
  mutable std::set<std::int64_t> unreadable_;
  mutable std::string first_unreadable_;
};

}  // namespace lockstep::data
