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
/// change leaves the draws of the others. `jitter` to `erasing` need images of 1 or 3 channels.
///
/// `mixup` and `cutmix` mix the images of a micro-batch after all other changes, each with the one
/// before it, the first with the last, and give a sample both classes (torchvision's MixUp and
/// CutMix of the batch). Where both are given, each micro-batch draws one of them. The draw depends
/// on (seed, epoch, place of the micro-batch in the epoch). Validation is never mixed.
struct Augmentation {
  int shift = 0;      ///< up to this many pixels in each direction, zeros move in
  bool flip = false;  ///< left to right with probability 1/2
  /// Left to right in every other epoch, half of the samples in the first one (Jordan 2024, arXiv
  /// 2404.00498, section 3.6): two epochs show both sides of each sample, where each epoch has the
  /// same ones. Of mixed_sources() and balanced_classes(), whose epochs draw others, it is a plain
  /// `flip`. Not with `flip`.
  bool alternating_flip = false;
  int crop = 0;  ///< pad by this many zeros on all sides, cut the original size at random
  /// What `shift` and `crop` bring in is the image mirrored at its outermost pixels, instead of
  /// zeros: torchvision's padding_mode "reflect".
  bool reflect = false;
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
  /// MixUp (Zhang et al. 2018, section 2): l times the image plus 1 - l times its partner, l from
  /// Beta(mixup, mixup); rounded to whole values. 0: none.
  double mixup = 0;
  /// CutMix (Yun et al. 2019, section 3.1): a box of the partner, of the share 1 - l, l from
  /// Beta(cutmix, cutmix); the part of it that lies in the image. 0: none.
  double cutmix = 0;

  /// Whether a loader has nothing to do.
  bool none() const {
    return shift == 0 && !flip && !alternating_flip && crop == 0 && resized_crop == 0 &&
           !changes_pixels() && !mixes();
  }
  bool mixes() const { return mixup > 0 || cutmix > 0; }
  bool changes_pixels() const {
    return !jitter.none() || rand_operations > 0 || trivial || erasing > 0;
  }
  /// As parse_augmentation() reads it: "shift:2,flip".
  std::string to_string() const;
  /// Throws ConfigError: changes that cannot be combined. What parse_augmentation() reads is valid;
  /// a loader checks what it is given.
  void validate() const;
};

/// Reads "none", or a comma-separated list of "shift[:PIXELS]" (2), "flip" or "alternating-flip",
/// "crop[:PADDING]" (4), "reflect" (with one of the two that move images),
/// "resized-crop[:SMALLEST_SHARE]" (0.08), "jitter:B[,C,S[,H]]" (of one value B it is contrast's
/// and saturation's too), "randaugment[:N[,M]]" (2, 9), "trivialaugment", "erasing[:P]" (0.5),
/// "mixup[:ALPHA]" (0.2), "cutmix[:ALPHA]" (1), ALPHA from 0.01 to 100.
/// Throws ConfigError naming the nearest valid word.
Augmentation parse_augmentation(std::string_view text);

}  // namespace lockstep::data
