// SPDX-License-Identifier: Apache-2.0
#include "core/data/image_samples.h"

#include "core/base/error.h"
#include "core/data/image_crop.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

constexpr int kMostSize = 4096;
// Of ImageNet's training pixels in [0, 1], as everyone rounds them.
constexpr float kImageNetMean[] = {0.485f, 0.456f, 0.406f};
constexpr float kImageNetDeviation[] = {0.229f, 0.224f, 0.225f};

}  // namespace

SampleSpec image_spec(int size, int classes) {
  SampleSpec spec;
  spec.input = {{size, size, 3}, DType::u8};
  spec.target = {{}, DType::i32};
  spec.classes = classes;
  for (int c = 0; c < 3; ++c) {
    spec.scale.push_back(1.0f / 255.0f / kImageNetDeviation[c]);
    spec.shift.push_back(-kImageNetMean[c] / kImageNetDeviation[c]);
  }
  return spec;
}

Crop sample_crop(const ImageOptions& options,
                 ImagePart part,
                 std::uint64_t epoch,
                 std::int64_t index,
                 ImageSize image) {
  if (part == ImagePart::train && options.resized_crop > 0)
    return random_crop(options.seed, epoch, index, image, options.resized_crop);
  return middle_crop(image, options.size);
}

std::uint64_t fold_options(std::uint64_t hash, const ImageOptions& options, ImagePart part) {
  hash = content_hash(&options.size, sizeof options.size, hash);
  if (part == ImagePart::validation || options.resized_crop == 0) return hash;
  hash = content_hash(&options.resized_crop, sizeof options.resized_crop, hash);
  return content_hash(&options.seed, sizeof options.seed, hash);
}

void check(const ImageOptions& options) {
  LOCKSTEP_CHECK(options.size >= 1 && options.size <= kMostSize,
                 ConfigError,
                 "images: expected a size of 1 to {} pixels, got {}",
                 kMostSize,
                 options.size);
  LOCKSTEP_CHECK(options.resized_crop >= 0 && options.resized_crop <= 1,
                 ConfigError,
                 "images: expected a smallest crop above 0 and at most 1, got {}",
                 options.resized_crop);
}

}  // namespace lockstep::data
