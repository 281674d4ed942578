// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data/image.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {

/// Whether a part is trained on, with random crops where asked for, or looked at in the middle.
enum class ImagePart { train, validation };

/// u8 [size, size, 3] -> i32 class, normalised by ImageNet's mean and deviation.
SampleSpec image_spec(int size, int classes);

/// How a source with such options makes samples: as a trained model's record says, or size x size
/// from an image whose short side has evaluation_short_side(size) pixels.
ImageRecord image_rule(const ImageOptions& options);

/// The rule for samples of side `size`: as much around the middle is cut off, in proportion.
ImageRecord resized(const ImageRecord& rule, int size);

/// The record for samples of side `size` of the same images. Throws ConfigError: it is not one of
/// images, or the size is out of range.
Preprocessing resized(const Preprocessing& trained, int size);

/// How one source of images makes samples; keeps nothing of options.trained.
struct ImageSampling {
  ImageSampling(const ImageOptions& options, ImagePart part);
  /// The same for samples of side `size`. Throws ConfigError: a size outside [1, 4096].
  ImageSampling resized(int size) const;

  /// image_spec(), of the rule's width and height.
  SampleSpec spec(int classes) const;
  /// The crop of one sample of an image, and what it becomes: see ImageOptions.
  /// `copy`: see Dataset::load_copy().
  Crop crop(std::uint64_t epoch, std::int64_t index, int copy, ImageSize image) const;
  ImageSize size() const { return {rule.width, rule.height}; }
  /// Folds into the hash of the content what the options make of it.
  std::uint64_t fold(std::uint64_t hash) const;

  ImageRecord rule;
  ImagePart part;
  double resized_crop;
  std::uint64_t seed;
};

/// Throws ConfigError: a size outside [1, 4096], a scale outside [0, 1], a limit of pixels outside
/// [1, kMaxMaxPixels].
void check(const ImageOptions& options);

}  // namespace lockstep::data
