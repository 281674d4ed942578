// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::data {

/// The most that colours change by: brightness, contrast and saturation by factors from
/// [max(0, 1 - b), 1 + b], hue by a part of the circle from [-h, h], h at most 1/2. As
/// torchvision's ColorJitter.
struct ColorJitter {
  float brightness = 0, contrast = 0, saturation = 0, hue = 0;
  bool none() const { return brightness == 0 && contrast == 0 && saturation == 0 && hue == 0; }
};

/// Random changes of training images, u8 [H, W, C], one draw for each sample and epoch, in the
/// order in which they stand here:
///
///   options.augmentation = {.flip = true, .crop = 4};
///
/// The draws depend on (seed, epoch, sample) alone, so neither on ranks nor on threads; adding a
/// change leaves the draws of the others. Those from `jitter` on need images of 1 or 3 channels.
struct Augmentation {
  int shift = 0;      ///< up to this many pixels in each direction, zeros move in
  bool flip = false;  ///< left to right with probability 1/2
  int crop = 0;       ///< pad by this many zeros on all sides, cut the original size at random
  /// Random parts of at least this share of the image, stretched to the sample's size; 0: none.
  /// Drawn while files are decoded, so before everything else, and given to the source
  /// (ImageOptions), not to a loader.
  double resized_crop = 0;
  ColorJitter jitter = {};
  /// RandAugment (Cubuk et al. 2020): this many changes of magnitude `rand_magnitude`, 0 to 30.
  int rand_operations = 0;
  int rand_magnitude = 9;
  bool trivial = false;  ///< TrivialAugment (Mueller and Hutter 2021), the wide space
  /// Random erasing (Zhong et al. 2020): with this probability a rectangle becomes what the model
  /// sees as 0, rounded to a whole value: the mean of the data, where they have one.
  double erasing = 0;

  /// Whether a loader has nothing to do.
  bool none() const {
    return shift == 0 && !flip && crop == 0 && resized_crop == 0 && !changes_pixels();
  }
  bool changes_pixels() const {
    return !jitter.none() || rand_operations > 0 || trivial || erasing > 0;
  }
  /// As parse_augmentation() reads it: "shift:2,flip".
  std::string to_string() const;
};

/// Reads "none", or a comma-separated list of "shift[:PIXELS]" (2), "flip", "crop[:PADDING]" (4),
/// "resized-crop[:SMALLEST_SHARE]" (0.08), "jitter:B[,C,S[,H]]" (of one value B it is contrast's
/// and saturation's too), "randaugment[:N[,M]]" (2, 9), "trivialaugment", "erasing[:P]" (0.5).
/// Throws ConfigError naming the nearest valid word.
Augmentation parse_augmentation(std::string_view text);

}  // namespace lockstep::data
