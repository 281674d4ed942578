// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Units of one tensor in the flat arrays, each of one output: of a matrix a row, of a convolution
/// a filter; a vector is one unit. Offsets and counts in elements.
struct UnitRange {
  std::int64_t offset = 0;  ///< of the tensor
  std::int64_t unit = 0;    ///< elements of a unit
  std::int64_t first = 0;   ///< unit
  std::int64_t elems = 1;   ///< units
  /// Index of the squared norms where they are given: then this is one unit, of which the elements
  /// from `own` on, `own_elems` of them, are written. -1: all of each unit, whose norms follow from
  /// its values. A squared norm is that of pieces, which end where blocks of kNormBlock elements of
  /// the tensor do: each as Backend::squared_norms() has it, added in order, in fp64.
  std::int32_t norm = -1;
  std::int64_t own = 0, own_elems = 0;
};

}  // namespace lockstep
