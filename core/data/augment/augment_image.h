// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/augment.h"
#include "lockstep/data/dataset.h"
#include "lockstep/shape.h"

namespace lockstep::data {

/// Changes one image in place, by all but `resized_crop`; draws keyed by (seed, epoch, sample)
/// alone. `zero`: the pixel that erased parts get, zero_pixel(). `scratch` holds as many bytes as
/// the image.
void augment(const Augmentation& augmentation,
             const Shape& image,
             std::span<const std::byte> zero,
             std::uint64_t seed,
             std::uint64_t epoch,
             std::int64_t sample,
             std::byte* data,
             std::byte* scratch);

/// What copy `copy` of a sample in an epoch draws with in place of `seed`; copy 0 with `seed`.
std::uint64_t seed_of_copy(std::uint64_t seed, int copy);

/// The mirror image, left to right, of an image [H, W, C]; `from` and `to` are apart.
void mirror(const Shape& image, const std::byte* from, std::byte* to);

/// The pixel nearest to what the model sees as 0 in every channel; black where samples are not
/// scaled.
std::vector<std::byte> zero_pixel(const SampleSpec& spec);

}  // namespace lockstep::data
