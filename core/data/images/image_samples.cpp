// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_samples.h"

#include "core/base/check.h"
#include "core/data/images/image_crop.h"
#include "core/data/input_file.h"
#include "core/data/normalisation.h"

namespace lockstep::data {
SampleSpec image_spec(int size, int classes) {
  SampleSpec spec;
  spec.input = {{size, size, 3}, DType::u8};
  spec.target = {{}, DType::i32};
  spec.classes = classes;
  normalise(spec, kImageNetMean, kImageNetDeviation);
  return spec;
}

ImageRecord image_rule(const ImageOptions& options) {
  if (options.trained && options.trained->image) return *options.trained->image;
  return {.width = options.size,
          .height = options.size,
          .channels = 3,
          .short_side = evaluation_short_side(options.size)};
}

ImageSampling::ImageSampling(const ImageOptions& options, ImagePart image_part)
    : rule(image_rule(options)),
      part(image_part),
      resized_crop(options.resized_crop),
      seed(options.seed) {}

SampleSpec ImageSampling::spec(int classes) const {
  SampleSpec spec = image_spec(rule.width, classes);
  spec.input.shape = {rule.height, rule.width, 3};
  return spec;
}

Crop ImageSampling::crop(std::uint64_t epoch, std::int64_t index, ImageSize image) const {
  if (part == ImagePart::train && resized_crop > 0)
    return random_crop(seed, epoch, index, image, resized_crop);
  return middle_crop(image, size(), rule.short_side);
}

std::uint64_t ImageSampling::fold(std::uint64_t hash) const {
  hash = content_hash(&rule.width, sizeof rule.width, hash);
  // Only where it is not the rule of every source: checkpoints have the sums of those.
  if (rule.height != rule.width || rule.short_side != evaluation_short_side(rule.width)) {
    hash = content_hash(&rule.height, sizeof rule.height, hash);
    hash = content_hash(&rule.short_side, sizeof rule.short_side, hash);
  }
  if (part == ImagePart::validation || resized_crop == 0) return hash;
  hash = content_hash(&resized_crop, sizeof resized_crop, hash);
  return content_hash(&seed, sizeof seed, hash);
}

void check(const ImageOptions& options) {
  LOCKSTEP_CHECK(options.size >= 1 && options.size <= kMaxImageSize,
                 ConfigError,
                 "images: expected a size of 1 to {} pixels, got {}",
                 kMaxImageSize,
                 options.size);
  LOCKSTEP_CHECK(options.resized_crop >= 0 && options.resized_crop <= 1,
                 ConfigError,
                 "images: expected a smallest crop above 0 and at most 1, got {}",
                 options.resized_crop);
  LOCKSTEP_CHECK(options.max_pixels >= 1 && options.max_pixels <= kMaxMaxPixels,
                 ConfigError,
                 "images: expected a limit of 1 to {} pixels, got {}",
                 kMaxMaxPixels,
                 options.max_pixels);
}

}  // namespace lockstep::data
