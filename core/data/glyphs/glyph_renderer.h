// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::data {

constexpr int kGlyphSize = 28;  ///< pixels in width and height
constexpr int kGlyphPixels = kGlyphSize * kGlyphSize;
constexpr int kGlyphClasses = 10;

/// Draws image number `counter` of the sequence `key`: a digit, its way of writing, warp, size,
/// aspect, slant, rotation, place, thickness, contrast, background and noise are all drawn from
/// (key, counter). Writes kGlyphPixels bytes, row by row, and returns the digit.
///
/// Determinism: uses +, -, *, / and square roots of IEEE floats alone, which every compiler and
/// instruction set rounds alike (contraction is off), so the bytes are the same on every machine.
int draw_glyph(std::uint64_t key, std::uint64_t counter, std::byte* pixels);

}  // namespace lockstep::data
