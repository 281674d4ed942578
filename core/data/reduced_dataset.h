// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// A dataset without some of its samples: the others in the same order, with the same bytes.
class ReducedDataset final : public Dataset {
 public:
  /// `skipped`: ascending indices of `whole`, each once, and not all of them.
  ReducedDataset(std::shared_ptr<const Dataset> whole, const std::vector<std::int64_t>& skipped);

  /// The index in the whole dataset of sample `index`.
  std::int64_t original(std::int64_t index) const;

  const SampleSpec& spec() const override { return whole_->spec(); }
  std::int64_t size() const override { return whole_->size() - std::int64_t(gaps_.size()); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    whole_->load(epoch, original(index), input, target);
  }
  std::string describe() const override;
  std::vector<std::string> class_names() const override { return whole_->class_names(); }
  std::uint64_t decoding_bytes(int threads) const override {
    return whole_->decoding_bytes(threads);
  }
  std::uint64_t fingerprint() const override;
  ContentSample content_sample(std::uint64_t seed) const override {
    return whole_->content_sample(seed);
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> gaps_;  // the index here before which each sample is missing
};

}  // namespace lockstep::data
