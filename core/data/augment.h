// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/augment.h"
#include "lockstep/shape.h"

namespace lockstep::data {

/// Changes one image in place, by all but `resized_crop`; draws keyed by (seed, epoch, sample)
/// alone. `scratch` holds as many bytes as the image.
void augment(const Augmentation& augmentation,
             const Shape& image,
             std::uint64_t seed,
             std::uint64_t epoch,
             std::int64_t sample,
             std::byte* data,
             std::byte* scratch);

}  // namespace lockstep::data
