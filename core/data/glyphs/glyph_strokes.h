// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::data {

/// A control point in percent of the glyph's box, x to the right and y downwards.
struct GlyphPoint {
  std::int8_t x, y;
};

/// How the points of a stroke are joined.
enum class StrokeKind : std::uint8_t {
  straight,  ///< a polyline
  curve,     ///< a Catmull-Rom spline through the points
  loop,      ///< the same, closed
};

struct GlyphStroke {
  StrokeKind kind;
  std::span<const GlyphPoint> points;
};

/// One way to write a digit.
using GlyphStrokes = std::span<const GlyphStroke>;

/// The ways to write `digit` (0..9), at least one.
std::span<const GlyphStrokes> glyph_variants(int digit);

}  // namespace lockstep::data
