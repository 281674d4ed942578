// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/data/augment/pixels.h"

namespace lockstep::data {

/// An affine map of pixel positions, in pixels: a point (x, y) of the result comes from
/// (a x + b y + c, d x + e y + f), both measured from the middle of the image.
struct AffineMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

/// Moves by whole pixels to the right and down.
AffineMap translation(int right, int down);
/// Counter-clockwise, about the middle.
AffineMap rotation(double degrees);
/// Shears along x by `slope` pixels a row, or along y by as many a column, about the upper left
/// corner of an image of width x height pixels, as torchvision's RandAugment does.
AffineMap shear_x(double slope, std::int64_t height);
AffineMap shear_y(double slope, std::int64_t width);

/// Replaces `image` by what `map` makes of it: each pixel is the nearest one of where it comes
/// from, zero where that is outside. As torchvision's affine() and rotate() with
/// InterpolationMode.NEAREST. `scratch`: as many bytes as the image.
void warp(const Pixels& image, const AffineMap& map, std::byte* scratch);

}  // namespace lockstep::data
