// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::data {

/// Random changes of training images, u8 [H, W, C], one draw for each sample and epoch:
///
///   options.augmentation = {.flip = true, .crop = 4};
///
/// The draws depend on (seed, epoch, sample) alone, so neither on ranks nor on threads.
struct Augmentation {
  int shift = 0;      ///< up to this many pixels in each direction, zeros move in
  bool flip = false;  ///< left to right with probability 1/2
  int crop = 0;       ///< pad by this many zeros on all sides, cut the original size at random
  /// Random parts of at least this share of the image, stretched to the sample's size; 0: none.
  /// Drawn while files are decoded, so it is given to the source (ImageOptions), not to a loader.
  double resized_crop = 0;
  bool none() const { return shift == 0 && !flip && crop == 0 && resized_crop == 0; }
  /// As parse_augmentation() reads it: "shift:2,flip".
  std::string to_string() const;
};

/// Reads "none", or a comma-separated list of "shift[:PIXELS]" (2), "flip", "crop[:PADDING]" (4),
/// "resized-crop[:SMALLEST_SHARE]" (0.08).
/// Throws ConfigError naming the nearest valid word.
Augmentation parse_augmentation(std::string_view text);

}  // namespace lockstep::data
