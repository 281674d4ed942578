// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// Changes something of another dataset: all that a derived class does not override is the other's.
/// load_batch() is not, which would pass by what load_copy() changes.
class ForwardingDataset : public Dataset {
 public:
  const SampleSpec& spec() const override { return inner_->spec(); }
  std::span<const SampleSpec> specs() const override { return inner_->specs(); }
  std::size_t spec_of(std::uint64_t epoch) const override { return inner_->spec_of(epoch); }
  std::int64_t size() const override { return inner_->size(); }
  /// Copy 0.
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const final {
    load_copy(epoch, index, 0, input, target);
  }
  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    inner_->load_copy(epoch, index, copy, input, target);
  }
  std::int32_t label(std::int64_t index) const override { return inner_->label(index); }
  std::string describe() const override { return inner_->describe(); }
  std::vector<std::string> class_names() const override { return inner_->class_names(); }
  Preprocessing preprocessing() const override { return inner_->preprocessing(); }
  SkippedRecords skipped_records() const override { return inner_->skipped_records(); }
  std::uint64_t fingerprint() const override { return inner_->fingerprint(); }
  std::uint64_t decoding_bytes(int threads) const override {
    return inner_->decoding_bytes(threads);
  }
  std::shared_ptr<const Dataset> resized(int size) const final {
    std::shared_ptr<const Dataset> other = inner_->resized(size);
    return other ? around(std::move(other)) : nullptr;
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    return inner_->content_sample(seed);
  }

 protected:
  explicit ForwardingDataset(std::shared_ptr<const Dataset> inner) : inner_(std::move(inner)) {}

  const Dataset& inner() const { return *inner_; }
  void set_inner(std::shared_ptr<const Dataset> inner) { inner_ = std::move(inner); }
  /// The same change of `other`: the samples of inner() with images of another size. Null: there is
  /// none.
  virtual std::shared_ptr<const Dataset> around(std::shared_ptr<const Dataset> other) const = 0;

 private:
  std::shared_ptr<const Dataset> inner_;
};

}  // namespace lockstep::data
