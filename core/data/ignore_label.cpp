// SPDX-License-Identifier: Apache-2.0
#include "core/data/ignore_label.h"

#include <cstring>
#include <fmt/format.h>

#include "lockstep/error.h"
#include "lockstep/preprocessing.h"

namespace lockstep::data {
namespace {

class IgnoreLabel final : public Dataset {
 public:
  IgnoreLabel(std::shared_ptr<const Dataset> dataset, std::int32_t label)
      : dataset_(std::move(dataset)), label_(label), spec_(dataset_->spec()) {
    spec_.ignore_index = kIgnoreIndex;
  }

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return dataset_->size(); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    load_copy(epoch, index, 0, input, target);
  }
  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    dataset_->load_copy(epoch, index, copy, input, target);
    std::int32_t label = 0;
    std::memcpy(&label, target, sizeof label);
    if (label == label_) std::memcpy(target, &kIgnoreIndex, sizeof kIgnoreIndex);
  }
  std::shared_ptr<const Dataset> resized(int size) const override {
    std::shared_ptr<const Dataset> other = dataset_->resized(size);
    return other ? std::make_shared<IgnoreLabel>(std::move(other), label_) : nullptr;
  }
  std::int32_t label(std::int64_t index) const override {
    const std::int32_t label = dataset_->label(index);
    return label == label_ ? kIgnoreIndex : label;
  }
  std::string describe() const override {
    return fmt::format("{}, class {} ignored", dataset_->describe(), label_);
  }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  Preprocessing preprocessing() const override {
    Preprocessing record = dataset_->preprocessing();
    record.samples = spec_;
    return record;
  }
  SkippedRecords skipped_records() const override { return dataset_->skipped_records(); }
  std::uint64_t decoding_bytes(int threads) const override {
    return dataset_->decoding_bytes(threads);
  }
  std::uint64_t fingerprint() const override {
    return dataset_->fingerprint() * 31 + std::uint64_t(label_) + 1;
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    return dataset_->content_sample(seed);
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::int32_t label_;
  SampleSpec spec_;
};

}  // namespace

std::shared_ptr<const Dataset> ignore_label(std::shared_ptr<const Dataset> dataset,
                                            std::int32_t label) {
  return std::make_shared<IgnoreLabel>(std::move(dataset), label);
}

}  // namespace lockstep::data
