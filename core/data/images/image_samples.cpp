// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_samples.h"

#include "core/base/check.h"
#include "core/data/augment/augment_image.h"
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

ImageRecord resized(const ImageRecord& rule, int size) {
  LOCKSTEP_CHECK(size >= 1 && size <= kMaxImageSize,
                 ConfigError,
                 "images: expected a size of 1 to {} pixels, got {}",
                 kMaxImageSize,
                 size);
  ImageRecord result = rule;
  result.width = result.height = size;
  result.short_side = rule.short_side == evaluation_short_side(rule.width)
                          ? evaluation_short_side(size)
                          : int(std::int64_t{rule.short_side} * size / rule.width);
  return result;
}

Preprocessing resized(const Preprocessing& trained, int size) {
  LOCKSTEP_CHECK(trained.image.has_value(),
                 ConfigError,
                 "`eval_image_size` {}: the data, {}, are not images of any size",
                 size,
                 trained.source);
  Preprocessing result = trained;
  result.image = resized(*trained.image, size);
  result.samples.input.shape = {size, size, trained.samples.input.shape[2]};
  return result;
}

ImageSampling ImageSampling::resized(int size) const {
  ImageSampling result = *this;
  result.rule = data::resized(rule, size);
  return result;
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

Crop ImageSampling::crop(std::uint64_t epoch, std::int64_t index, int copy, ImageSize image) const {
  if (part == ImagePart::train && resized_crop > 0)
    return random_crop(seed_of_copy(seed, copy), epoch, index, image, resized_crop);
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
