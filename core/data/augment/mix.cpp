// SPDX-License-Identifier: Apache-2.0
#include "core/data/augment/mix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/base/check.h"
#include "core/base/random.h"

namespace lockstep::data {
namespace {

constexpr std::uint32_t kWhole = std::uint32_t{1} << Mix::kWeightBits;

using SoftTarget = std::array<float, 4>;

/// own = weight own + (1 - weight) partner, of `elems` bytes. Whole numbers: no device and no
/// instruction set rounds them differently.
void average(std::byte* own, const std::byte* partner, std::size_t elems, std::uint32_t weight) {
  auto* const x = reinterpret_cast<std::uint8_t*>(own);
  const auto* const y = reinterpret_cast<const std::uint8_t*>(partner);
  for (std::size_t i = 0; i < elems; ++i)
    x[i] =
        std::uint8_t((x[i] * weight + y[i] * (kWhole - weight) + kWhole / 2) >> Mix::kWeightBits);
}

void mix_image(const Mix& mix, const Shape& image, std::byte* own, const std::byte* partner) {
  if (!mix.cuts) return average(own, partner, std::size_t(image.elems()), mix.weight);
  const std::int64_t channels = image[2], row = image[1] * channels;
  const auto bytes = std::size_t((mix.right - mix.left) * channels);
  for (std::int64_t y = mix.top; y < mix.bottom; ++y)
    std::memcpy(
        own + y * row + mix.left * channels, partner + y * row + mix.left * channels, bytes);
}

std::int32_t label_at(const std::byte* labels, std::int64_t i) {
  std::int32_t label = 0;
  std::memcpy(&label, labels + i * std::int64_t(sizeof label), sizeof label);
  return label;
}

std::uint32_t weight_of(double share) { return std::uint32_t(std::llround(share * kWhole)); }

}  // namespace

TensorType soft_target() { return {{2, 2}, DType::f32}; }

TensorType target_type(const SampleSpec& samples, const Augmentation& augmentation) {
  return augmentation.mixes() ? soft_target() : samples.target;
}

void check_mixed(const SampleSpec& samples) {
  LOCKSTEP_CHECK(samples.classes > 0 && samples.target == TensorType({}, DType::i32),
                 ConfigError,
                 "`augment`: mixup and cutmix need one class a sample, but the targets are {}",
                 samples.target.to_string());
  LOCKSTEP_CHECK(samples.classes <= int(kWhole),
                 ConfigError,
                 "`augment`: mixup and cutmix take at most {} classes, got {}",
                 kWhole,
                 samples.classes);
  LOCKSTEP_CHECK(!samples.ignore_index,
                 ConfigError,
                 "`augment`: mixup and cutmix cannot be combined with `ignore_index`: an image "
                 "without a class cannot be mixed");
}

double symmetric_beta(double alpha, std::uint32_t u, std::uint32_t v) {
  // Halves keep both off 0 and the cosine off its zeros.
  const double uniform = (double(u) + 0.5) * 0x1p-32,
               cosine = std::cos(2 * std::numbers::pi * (double(v) + 0.5) * 0x1p-32);
  const double square = std::expm1(-std::log(uniform) / alpha) * cosine * cosine;
  // c / sqrt(1 + c^2), which has a limit for c without bounds.
  return 0.5 * (1 + std::copysign(1 / std::sqrt(1 + 1 / square), cosine));
}

Mix box_around(std::int64_t x, std::int64_t y, double lambda, const Shape& image) {
  const std::int64_t h = image[0], w = image[1];
  const double half = 0.5 * std::sqrt(1 - lambda);
  const auto half_w = std::int64_t(half * double(w)), half_h = std::int64_t(half * double(h));
  Mix mix{.cuts = true,
          .left = std::max<std::int64_t>(x - half_w, 0),
          .top = std::max<std::int64_t>(y - half_h, 0),
          .right = std::min(x + half_w, w),
          .bottom = std::min(y + half_h, h)};
  const std::int64_t others = (mix.right - mix.left) * (mix.bottom - mix.top);
  mix.weight = weight_of(double(h * w - others) / double(h * w));
  return mix;
}

Mix average_with(double lambda) { return {.weight = weight_of(lambda)}; }

Mix draw_mix(const Augmentation& augmentation,
             const Shape& image,
             std::uint64_t seed,
             std::uint64_t epoch,
             std::int64_t position) {
  const RandomBlock block = philox(random_key(seed, "mix"), std::uint64_t(position), epoch);
  RandomStream random(std::uint64_t{block[0]} << 32 | block[1],
                      std::uint64_t{block[2]} << 32 | block[3]);
  const bool drawn = random.below(2) == 1;
  const bool cuts = augmentation.mixup == 0 || (augmentation.cutmix > 0 && drawn);
  const std::uint32_t u = random.next(), v = random.next();
  const double lambda = symmetric_beta(cuts ? augmentation.cutmix : augmentation.mixup, u, v);
  if (!cuts) return average_with(lambda);
  const std::int64_t x = random.below(std::uint32_t(image[1])),
                     y = random.below(std::uint32_t(image[0]));
  return box_around(x, y, lambda, image);
}

void mix_images(
    const Mix& mix, const Shape& image, std::int64_t count, std::byte* images, std::byte* scratch) {
  // From the last on, so that each partner is still as it was loaded.
  const std::int64_t bytes = image.elems();
  std::memcpy(scratch, images + (count - 1) * bytes, std::size_t(bytes));
  for (std::int64_t i = count - 1; i > 0; --i)
    mix_image(mix, image, images + i * bytes, images + (i - 1) * bytes);
  mix_image(mix, image, images, scratch);
}

void mix_targets(const Mix& mix, std::int64_t count, std::byte* targets) {
  // From the last on: a soft target takes the place of labels after its own alone.
  const float weight = float(mix.weight) / float(kWhole);
  const std::int32_t last = label_at(targets, count - 1);
  for (std::int64_t i = count - 1; i >= 0; --i) {
    const std::int32_t partner = i == 0 ? last : label_at(targets, i - 1);
    const SoftTarget mixed{float(label_at(targets, i)), weight, float(partner), 1 - weight};
    std::memcpy(targets + i * std::int64_t(sizeof mixed), mixed.data(), sizeof mixed);
  }
}

}  // namespace lockstep::data
