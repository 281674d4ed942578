// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "core/base/random.h"
#include "core/data/augment/pixels.h"
#include "lockstep/data/augment.h"

/// Policies that draw changes of an image. Each takes its numbers from `random`; `scratch` holds as
/// many bytes as the image. Images have 1 or 3 channels.
namespace lockstep::data {

/// What RandAugment and TrivialAugment choose from; those of warp.h first.
enum class Change : std::uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize
};
inline constexpr int kChanges = 14;
inline constexpr int kMagnitudes = 31;  ///< from 0

/// How strong each change is at magnitude m of 30, as t = m / 30 goes from 0 to 1. Those with a
/// sign go either way.
struct ChangeRanges {
  double shear, translate_x, translate_y;  ///< slope, pixels
  double degrees, factor;                  ///< of colour changes: 1 +- factor
  int bits;                                ///< that posterize drops
};

/// Applies `change` at magnitude `m`; `negative`: the other way.
void apply_change(const Pixels& image,
                  Change change,
                  const ChangeRanges& ranges,
                  int m,
                  bool negative,
                  std::byte* scratch);

/// Of an image of that size.
ChangeRanges rand_augment_ranges(const Pixels& image);
ChangeRanges trivial_augment_ranges();

/// `operations` changes one after the other, each drawn from all of them, at one magnitude
/// (Cubuk et al. 2020, "RandAugment", section 3; torchvision's RandAugment).
void rand_augment(
    const Pixels& image, int operations, int magnitude, RandomStream& random, std::byte* scratch);
/// One change at a magnitude drawn from all 31 (Mueller and Hutter 2021, "TrivialAugment",
/// algorithm 1, the wide space; torchvision's TrivialAugmentWide).
void trivial_augment(const Pixels& image, RandomStream& random, std::byte* scratch);

/// Brightness, contrast, saturation and hue in an order that is drawn, each by a factor drawn from
/// [max(0, 1 - b), 1 + b], hue by a part of a circle from [-h, h] (torchvision's ColorJitter).
void color_jitter(const Pixels& image, const ColorJitter& jitter, RandomStream& random);

/// With probability `probability` writes `fill`, one value a channel, over a rectangle of 2% to 33%
/// of the image with sides of 3:10 to 10:3, at any place (Zhong et al. 2020, algorithm 1;
/// torchvision's RandomErasing).
void random_erasing(const Pixels& image,
                    double probability,
                    std::span<const std::byte> fill,
                    RandomStream& random);

}  // namespace lockstep::data
