// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/forwarding_dataset.h"

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
class GrowingImages final : public ForwardingDataset {
 public:
  /// `last`: of the last size. Throws ConfigError: it makes no images of other sizes, or the first
  /// is larger.
  GrowingImages(std::shared_ptr<const Dataset> last, const ImageGrowth& growth);

  std::span<const SampleSpec> specs() const override { return specs_; }
  std::size_t spec_of(std::uint64_t epoch) const override;
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
  std::string describe() const override;

 private:
  /// Its sizes are those of the epochs.
  std::shared_ptr<const Dataset> around(std::shared_ptr<const Dataset>) const override {
    return nullptr;
  }

  ImageGrowth growth_;
  std::vector<int> sides_;
  std::vector<std::shared_ptr<const Dataset>> datasets_;  // by side
  std::vector<SampleSpec> specs_;
};

}  // namespace lockstep::data
