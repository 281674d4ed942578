// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/data/augment/pixels.h"

/// Changes of the colours of an image, in place, with the arithmetic of torchvision's functions of
/// the same names (transforms.v2.functional, of uint8 tensors): fp32, results cut to [0, 255] and
/// rounded towards zero. Images have 1 or 3 channels; those of 1 are grey, and have neither
/// saturation nor hue.
namespace lockstep::data {

/// x factor. factor >= 0; 1: as it is.
void adjust_brightness(const Pixels& image, float factor);
/// factor x + (1 - factor) m, m the mean of the grey image.
void adjust_contrast(const Pixels& image, float factor);
/// factor x + (1 - factor) g, g the pixel's grey: floor(0.2989 R + 0.587 G + 0.114 B).
void adjust_saturation(const Pixels& image, float factor);
/// Adds `turns`, -1/2 to 1/2, to the hue of each pixel, 1 being a whole circle.
void adjust_hue(const Pixels& image, float turns);
/// factor x + (1 - factor) b, b the mean of the 3 x 3 pixels around, in which x counts five times;
/// pixels on the border stay. `scratch`: as many bytes as the image.
void adjust_sharpness(const Pixels& image, float factor, std::byte* scratch);
/// Keeps the `bits` highest bits, 0 to 8.
void posterize(const Pixels& image, int bits);
/// 255 - x where x >= threshold.
void solarize(const Pixels& image, float threshold);
/// Stretches each channel to 0 to 255.
void autocontrast(const Pixels& image);
/// Makes the histogram of each channel as even as it can be, as Pillow does.
void equalize(const Pixels& image);

}  // namespace lockstep::data
