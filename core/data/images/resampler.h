// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/image.h"

namespace lockstep::data {

/// Stretches a part of an image to another size: bilinear, with a triangle filter as wide as the
/// step where it shrinks, so that nothing is skipped (Pillow's and torchvision's antialias=True).
///
/// Numerics: whole numbers alone, the same bits on every machine: weights of 14 and 15 bits, 7 more
/// bits than a byte between the two passes. Within 1 of the exact, unrounded result.
/// Keeps its memory from call to call; used by one thread at a time.
class Resampler {
 public:
  /// Writes `size` pixels, u8 [height, width, 3], to `out`. Pixels outside of `image` do not
  /// contribute. A box that is the image, at its own size, is copied.
  void run(const ImageView& image, const Box& box, ImageSize size, std::uint8_t* out);

 private:
  enum class Taps { any, even };

  /// Output i is the sum of inputs first[i] + t times weights[i * taps + t], t in [0, taps).
  struct Axis {
    int taps = 0;
    std::vector<int> first;
    std::vector<std::uint16_t> weights;
    std::vector<double> exact;
    /// `count` outputs from [begin, begin + length) of `size` inputs; weights sum to 2^`bits`. An
    /// even number of taps may reach one input after the last, with weight zero.
    void prepare(int size, double begin, double length, int count, int bits, Taps round);
  };

  void mix_rows(const ImageView& image, int output_row);
  void mix_columns(int count, std::uint8_t* out) const;

  Axis rows_, columns_;
  std::vector<std::uint16_t> row_;      // one output row before the columns are mixed, bytes * 128
  std::vector<std::uint32_t> precise_;  // the same, wider, for filters of many taps
};

}  // namespace lockstep::data
