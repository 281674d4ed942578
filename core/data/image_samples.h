// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data/dataset.h"
#include "core/data/image.h"
#include "core/data/sources.h"

namespace lockstep::data {

/// Whether a part is trained on, with random crops where asked for, or looked at in the middle.
enum class ImagePart { train, validation };

/// u8 [size, size, 3] -> i32 class, normalised by ImageNet's mean and deviation.
SampleSpec image_spec(int size, int classes);

/// The crop of one sample of a picture: see ImageOptions.
Crop sample_crop(const ImageOptions& options,
                 ImagePart part,
                 std::uint64_t epoch,
                 std::int64_t index,
                 ImageSize image);

/// Folds into the hash of the content what the options make of it.
std::uint64_t fold_options(std::uint64_t hash, const ImageOptions& options, ImagePart part);

/// Throws ConfigError: a size outside [1, 4096], a scale outside [0, 1].
void check(const ImageOptions& options);

}  // namespace lockstep::data
