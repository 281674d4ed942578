// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/data/arrays/npy_array.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// The most features of a table that is standardised, of which a run's record has a line each.
constexpr std::int64_t kMaxArrayFeatures = 65536;

/// What the rows of `array` are as samples: of uint8 [N, H, W] or [N, H, W, C] images u8 [H, W, C];
/// of floats of that shape f32 [H, W, C], taken as they are; of [N, F] features f32 [F]. Throws
/// DataError naming the array: another shape, uint8 images of other than 1 or 3 channels, images
/// whose channels come first, images of other whole numbers, too many features.
TensorType array_sample_type(const NpyArray& array);

/// Scale and shift of uint8 images: ImageNet's mean and deviation of 3 channels, as images:DIR has
/// them, and MNIST's of one.
void set_array_scale(SampleSpec& spec);

/// A table of `features` features, named 0, 1, 2, ..., and of `targets` targets, named y or y0, y1,
/// ..., not standardised yet.
TableRecord array_table(std::int64_t features, std::int64_t targets);

/// Mean and deviation of the rows `rows` of `array`, which are read three times. Throws DataError
/// naming array, row and column: a number that is not finite.
void fit_array_table(const NpyArray& array,
                     const std::vector<std::int64_t>& rows,
                     TableRecord& table);

/// Rows of an array as a model sees them.
class ArrayInputs {
 public:
  /// `table`: what f32 [F] are standardised by; null where there is none. Throws DataError: the
  /// array's samples are not of `type`, or what array_sample_type() throws.
  ArrayInputs(NpyArray array, const TensorType& type, std::shared_ptr<const TableRecord> table);
  /// By the record of a run, for predictions.
  ArrayInputs(NpyArray array, const Preprocessing& trained);

  const NpyArray& array() const { return array_; }
  std::int64_t size() const { return array_.rows(); }
  /// "x.npy[17]"
  std::string place(std::int64_t row) const;
  /// Writes a sample. Throws DataError naming array and row: a number that is not finite, or too
  /// far from the mean for f32; the file cannot be read.
  void load(std::int64_t row, std::byte* to) const;

 private:
  void load_standardised(std::int64_t row, std::byte* to) const;
  void load_floats(std::int64_t row, std::byte* to) const;

  NpyArray array_;
  bool is_bytes_ = false;
  std::shared_ptr<const TableRecord> table_;
};

}  // namespace lockstep::data
