// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data/image.h"

namespace lockstep::data {

/// torchvision's RandomResizedCrop: a part of the image whose area is `min_scale` to 1 of it and
/// whose aspect ratio 3/4 to 4/3 (uniform in its logarithm); after ten tries that do not fit, the
/// largest such part in the middle. Drawn from (seed, epoch, sample) alone; the same on every
/// machine (no library logarithms).
/// Source: Szegedy et al., "Going Deeper with Convolutions", 2015, section 6.
Crop random_crop(std::uint64_t seed,
                 std::uint64_t epoch,
                 std::int64_t sample,
                 ImageSize image,
                 double min_scale);

/// The short side in pixels that an image has before `size` x `size` are cut from its middle:
/// size * 256 / 224, rounded down, as is usual for models of ImageNet.
int evaluation_short_side(int size);

/// What evaluation looks at: the short side becomes `short_side` pixels, and `part` is cut from the
/// middle. An image of exactly that size is left as it is.
Crop middle_crop(ImageSize image, ImageSize part, int short_side);

/// The image with its short side shrunk to `short_side`; smaller ones stay.
ImageSize shrunk(ImageSize image, int short_side);

/// All of the image.
Crop whole(ImageSize image);

}  // namespace lockstep::data
