// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Samples that the program has in memory, as PyTorch's TensorDataset:
///
///   const std::vector<float> points = ...;         // [N, 2], row by row
///   const std::vector<std::int32_t> rings = ...;   // [N]
///   trainer.fit({std::make_shared<data::TensorDataset>(Shape{2}, points, rings, 2), nullptr});
///
/// It keeps a copy, so that the caller's memory may go; every rank holds all samples. All values
/// are looked at once, when it is made: all constructors throw ConfigError where counts do not fit
/// each other, and DataError naming sample and element for a number that is not finite, a class,
/// token or category that is not there, and a label of several that is neither 0 nor 1.
class TensorDataset final : public Dataset {
 public:
  /// inputs: [N, sample...] f32; labels: [N], each 0 to classes - 1.
  TensorDataset(const Shape& sample,
                std::span<const float> inputs,
                std::span<const std::int32_t> labels,
                int classes);
  /// inputs: [N, sample...] f32; targets: [N, D] f32, numbers that a model predicts.
  TensorDataset(const Shape& sample, std::span<const float> inputs, std::span<const float> targets);
  /// inputs: [N] of what spec.input is, row by row; targets: [N] of spec.target. For images of
  /// bytes, tokens, several labels, names of classes.
  TensorDataset(SampleSpec spec,
                std::span<const std::byte> inputs,
                std::span<const std::byte> targets,
                std::vector<std::string> class_names = {});

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override;
  void load_batch(std::uint64_t epoch,
                  std::span<const std::int64_t> indices,
                  std::byte* input,
                  std::byte* target) const override;
  std::int32_t label(std::int64_t index) const override;
  /// "2048 samples in memory, f32[2], 2 classes"
  std::string describe() const override;
  std::vector<std::string> class_names() const override { return class_names_; }
  /// Of all bytes, what they are, and the names.
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  SampleSpec spec_;
  std::int64_t size_ = 0;
  std::vector<std::byte> inputs_, targets_;
  std::size_t input_bytes_ = 0, target_bytes_ = 0;  // of a sample
  std::vector<std::string> class_names_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace lockstep::data
