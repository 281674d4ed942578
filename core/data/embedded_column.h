// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// A table's column of texts is embedded from so many categories on; one-hot features of fewer cost
/// little, and are learned sooner.
inline constexpr std::int64_t kMinEmbeddedCategories = 32;

/// f32 holds every index below this one.
inline constexpr std::int64_t kMaxEmbeddedCategories = std::int64_t{1} << 24;

/// Throws ConfigError: `spec.embedded` names features that its samples do not have, twice or in
/// another order, or of fewer than 1 or more than kMaxEmbeddedCategories categories; or the samples
/// have a scale, which would change indices.
void check_embedded(const SampleSpec& spec);

}  // namespace lockstep::data
