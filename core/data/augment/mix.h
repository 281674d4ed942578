// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/data/augment.h"
#include "lockstep/data/dataset.h"
#include "lockstep/shape.h"

/// MixUp and CutMix of the images of a micro-batch: Augmentation::mixes().
namespace lockstep::data {

/// How each image of a micro-batch is mixed with its partner, the one before it.
struct Mix {
  static constexpr int kWeightBits = 24;  ///< what f32 holds of numbers below 1

  bool cuts = false;  ///< the box comes from the partner; otherwise all pixels are averaged
  std::uint32_t weight =
      0;  ///< of the image's own class, in units of 2^-24; the partner's: the rest
  std::int64_t left = 0, top = 0, right = 0, bottom = 0;  ///< the box, without right and bottom
};

/// The target of a sample that is mixed: f32 [2, 2], its own class and that class's weight, then
/// the partner's.
TensorType soft_target();
/// Of samples that are loaded with `augmentation`.
TensorType target_type(const SampleSpec& samples, const Augmentation& augmentation);
/// Throws ConfigError: these have not one class each, some are ignored, or they are more than f32
/// holds.
void check_mixed(const SampleSpec& samples);

/// For the micro-batch that begins at `position` of `epoch`, as torchvision's MixUp and CutMix:
/// l = Beta(alpha, alpha); the box has its middle at any pixel and sides sqrt(1 - l) of the
/// image's, rounded down to even numbers and cut off at the borders; 1 - l is then its true share.
Mix draw_mix(const Augmentation& augmentation,
             const Shape& image,
             std::uint64_t seed,
             std::uint64_t epoch,
             std::int64_t position);
/// The box around pixel (x, y) for l = `lambda`; torchvision's CutMix.
Mix box_around(std::int64_t x, std::int64_t y, double lambda, const Shape& image);
/// Averages with weight `lambda`.
Mix average_with(double lambda);
/// A number from Beta(alpha, alpha), of two uniform words: (1 + c / sqrt(1 + c^2)) / 2 with
/// c^2 = (u^(-1/alpha) - 1) cos^2(2 pi v) and the cosine's sign (Devroye 1996, "Random variate
/// generation in one line of code", section 3).
double symmetric_beta(double alpha, std::uint32_t u, std::uint32_t v);

/// Mixes `count` images [H, W, C] in place. A mean is rounded to the nearest value, halves up.
/// `scratch` holds as many bytes as one image.
void mix_images(
    const Mix& mix, const Shape& image, std::int64_t count, std::byte* images, std::byte* scratch);
/// From `count` labels i32, soft_target()s in their place.
void mix_targets(const Mix& mix, std::int64_t count, std::byte* targets);

}  // namespace lockstep::data
