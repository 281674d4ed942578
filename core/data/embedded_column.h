// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::data {

/// A feature that holds the index of a category, 0 to categories - 1, which a model looks up in a
/// table of its own (Builder::column_embedding()).
struct EmbeddedColumn {
  std::int64_t feature = 0;  ///< its place in a sample
  std::int64_t categories = 0;
  bool operator==(const EmbeddedColumn&) const = default;
};

/// A table's column of texts is embedded from so many categories on; one-hot features of fewer cost
/// little, and are learned sooner.
inline constexpr std::int64_t kMinEmbeddedCategories = 32;

/// f32 holds every index below this one.
inline constexpr std::int64_t kMaxEmbeddedCategories = std::int64_t{1} << 24;

}  // namespace lockstep::data
