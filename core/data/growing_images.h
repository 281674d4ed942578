// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/dataset.h"
#include "lockstep/preprocessing.h"

namespace lockstep::data {

/// Sides of square images that grow over the epochs of a run (progressive resizing: Howard 2018,
/// fast.ai's DAWNBench entry; FFCV).
struct ImageGrowth {
  int first = 0, last = 0;  ///< of the first and of the last epoch, first <= last
  std::int64_t epochs = 1;  ///< of the run

  /// first + (last - first) epoch / (epochs - 1), rounded to the nearest multiple of 32, halves up,
  /// but not beyond first and last; those of the first and the last epoch are as they are. Epochs
  /// after the last have its size, and a run of one epoch the last size.
  int side(std::int64_t epoch) const;
  /// All that some epoch has, the last one first.
  std::vector<int> sides() const;
};

/// A dataset of images whose size grows from epoch to epoch; spec() is that of the last.
class GrowingImages final : public Dataset {
 public:
  /// `last`: of the last size. Throws ConfigError: it makes no images of other sizes, or the first
  /// is larger.
  GrowingImages(std::shared_ptr<const Dataset> last, const ImageGrowth& growth);

  const SampleSpec& spec() const override { return last().spec(); }
  std::span<const SampleSpec> specs() const override { return specs_; }
  std::size_t spec_of(std::uint64_t epoch) const override;
  std::int64_t size() const override { return last().size(); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    datasets_[spec_of(epoch)]->load(epoch, index, input, target);
  }
  void load_batch(std::uint64_t epoch,
                  std::span<const std::int64_t> indices,
                  std::byte* input,
                  std::byte* target) const override {
    datasets_[spec_of(epoch)]->load_batch(epoch, indices, input, target);
  }
  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    datasets_[spec_of(epoch)]->load_copy(epoch, index, copy, input, target);
  }
  std::int32_t label(std::int64_t index) const override { return last().label(index); }
  std::string describe() const override;
  std::vector<std::string> class_names() const override { return last().class_names(); }
  Preprocessing preprocessing() const override { return last().preprocessing(); }
  SkippedRecords skipped_records() const override { return last().skipped_records(); }
  std::uint64_t fingerprint() const override { return last().fingerprint(); }
  std::uint64_t decoding_bytes(int threads) const override {
    return last().decoding_bytes(threads);
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    return last().content_sample(seed);
  }

 private:
  const Dataset& last() const { return *datasets_.front(); }

  ImageGrowth growth_;
  std::vector<int> sides_;
  std::vector<std::shared_ptr<const Dataset>> datasets_;  // by side
  std::vector<SampleSpec> specs_;
};

}  // namespace lockstep::data
