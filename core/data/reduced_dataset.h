// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/data/forwarding_dataset.h"

namespace lockstep::data {

/// A dataset without some of its samples: the others in the same order, with the same bytes.
class ReducedDataset final : public ForwardingDataset {
 public:
  /// `skipped`: ascending indices of `whole`, each once, and not all of them.
  ReducedDataset(std::shared_ptr<const Dataset> whole, const std::vector<std::int64_t>& skipped);

  /// The index in the whole dataset of sample `index`.
  std::int64_t original(std::int64_t index) const;

  std::int64_t size() const override { return inner().size() - std::int64_t(gaps_.size()); }
  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    inner().load_copy(epoch, original(index), copy, input, target);
  }
  std::int32_t label(std::int64_t index) const override { return inner().label(original(index)); }
  std::string describe() const override;
  std::uint64_t fingerprint() const override;

 private:
  std::shared_ptr<const Dataset> around(std::shared_ptr<const Dataset> other) const override {
    auto result = std::make_shared<ReducedDataset>(*this);
    result->set_inner(std::move(other));
    return result;
  }

  std::vector<std::int64_t> gaps_;  // the index here before which each sample is missing
};

}  // namespace lockstep::data
