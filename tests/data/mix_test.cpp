// SPDX-License-Identifier: Apache-2.0
#include "core/data/augment/mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numbers>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/random.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

std::vector<std::byte> bytes_of_hexadecimal(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(std::byte(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

class MixingGoldens : public ::testing::Test {
 protected:
  std::vector<std::byte> mixed(const Mix& mix) const {
    std::vector<std::byte> images = start_, scratch(std::size_t(image_.elems()));
    mix_images(mix, image_, count_, images.data(), scratch.data());
    return images;
  }

  /// `wanted`: torchvision's one-hot targets, of `count_` samples with labels 2, 0, 2.
  void expect_targets(const Mix& mix, const std::vector<double>& wanted, double tolerance) const {
    std::vector<float> targets(std::size_t(4 * count_));
    const std::int32_t labels[] = {2, 0, 2};
    std::memcpy(targets.data(), labels, sizeof labels);
    mix_targets(mix, count_, reinterpret_cast<std::byte*>(targets.data()));
    std::vector<double> dense(wanted.size());
    for (std::size_t n = 0; n < std::size_t(count_); ++n)
      for (const std::size_t i : {4 * n, 4 * n + 2})
        dense[n * std::size_t(classes_) + std::size_t(targets[i])] += double(targets[i + 1]);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(dense[i], wanted[i], tolerance) << "element " << i;
  }

  Shape image_;
  std::int64_t count_ = 0, classes_ = 0;
  std::vector<std::byte> start_;
};

#define UNPACK(...) __VA_ARGS__

TEST_F(MixingGoldens, ImagesAndTargetsAreTorchvisions) {
  int cases = 0;
#define GOLDEN_BATCH(count, height, width, channels, classes, pixels) \
  image_ = {height, width, channels};                                 \
  count_ = count;                                                     \
  classes_ = classes;                                                 \
  start_ = bytes_of_hexadecimal(pixels);
  // A sum of two products is three roundings of numbers below 256, and ours is rounded to a whole
  // number; a weight is off by half of 2^-24, and rounded to fp32 there.
#define GOLDEN_MIXUP(lambda, pixels, targets)                                                \
  {                                                                                          \
    const std::vector<double> wanted{UNPACK pixels};                                         \
    const Mix mix = average_with(lambda);                                                    \
    const std::vector<std::byte> got = mixed(mix);                                           \
    ASSERT_EQ(got.size(), wanted.size());                                                    \
    for (std::size_t i = 0; i < got.size(); ++i)                                             \
      EXPECT_NEAR(double(got[i]), wanted[i], 0.5 + 4 * 256 * 0x1p-24) << lambda << " " << i; \
    expect_targets(mix, {UNPACK targets}, 0x1p-23);                                          \
    ++cases;                                                                                 \
  }
#define GOLDEN_CUTMIX(lambda, x, y, pixels, targets)               \
  {                                                                \
    const Mix mix = box_around(x, y, lambda, image_);              \
    EXPECT_EQ(mixed(mix), bytes_of_hexadecimal(pixels)) << lambda; \
    expect_targets(mix, {UNPACK targets}, 0x1p-23);                \
    ++cases;                                                       \
  }
#include "tests/data/mixing_goldens.inc"
  EXPECT_EQ(cases, 10);
}

/// The largest distance of the distribution of `count` numbers from `cdf`.
template <typename Cdf>
double distance(double alpha, int count, Cdf cdf) {
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) {
    const RandomBlock words = philox(11, std::uint64_t(i), 0);
    numbers.push_back(symmetric_beta(alpha, words[0], words[1]));
  }
  std::ranges::sort(numbers);
  double most = 0;
  for (int i = 0; i < count; ++i)
    most = std::max({most,
                     std::abs(cdf(numbers[std::size_t(i)]) - double(i) / count),
                     std::abs(cdf(numbers[std::size_t(i)]) - double(i + 1) / count)});
  return most;
}

// Kolmogorov and Smirnov's statistic is above 1.95 / sqrt(n) once in a thousand times.
TEST(SymmetricBeta, HasTheDistribution) {
  constexpr int kCount = 20000;
  const double limit = 1.95 / std::sqrt(kCount);
  const auto arcsine = [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); };
  const auto uniform = [](double x) { return x; };
  const auto cubic = [](double x) { return x * x * (3 - 2 * x); };
  EXPECT_LT(distance(0.5, kCount, arcsine), limit);
  EXPECT_LT(distance(1, kCount, uniform), limit);
  EXPECT_LT(distance(2, kCount, cubic), limit);
  EXPECT_GT(distance(1, kCount, cubic), limit);
}

TEST(SymmetricBeta, HasTheMomentsOfSmallAndLargeAlphas) {
  constexpr int kCount = 20000;
  for (const double alpha : {0.01, 0.2, 0.8, 100.0}) {
    double sum = 0, squares = 0;
    for (int i = 0; i < kCount; ++i) {
      const RandomBlock words = philox(12, std::uint64_t(i), 0);
      const double d = symmetric_beta(alpha, words[0], words[1]) - 0.5;
      ASSERT_TRUE(d >= -0.5 && d <= 0.5);
      sum += d;
      squares += d * d;
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    const double fourth = 3 * variance * variance * (2 * alpha + 1) / (2 * alpha + 3);
    // Five standard errors.
    EXPECT_NEAR(sum / kCount, 0, 5 * std::sqrt(variance / kCount)) << alpha;
    EXPECT_NEAR(
        squares / kCount, variance, 5 * std::sqrt((fourth - variance * variance) / kCount) + 1e-9)
        << alpha;
  }
  for (const std::uint32_t u : {0u, ~0u})
    for (const std::uint32_t v : {0u, 1u << 30, 1u << 31, ~0u}) {
      const double x = symmetric_beta(0.01, u, v);
      EXPECT_TRUE(x >= 0 && x <= 1) << u << ' ' << v;
    }
}

Mix drawn(const char* text,
          std::int64_t position,
          std::uint64_t epoch = 0,
          std::uint64_t seed = 1) {
  return draw_mix(parse_augmentation(text), {32, 24, 3}, seed, epoch, position);
}

std::tuple<bool, std::uint32_t, std::int64_t> key(const Mix& mix) {
  return {mix.cuts, mix.weight, mix.left};
}

TEST(Mix, IsKeyedBySeedEpochAndPosition) {
  std::set<std::tuple<bool, std::uint32_t, std::int64_t>> seen;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(key(drawn("mixup:1", 8 * i)), key(drawn("mixup:1", 8 * i)));
    seen.insert(key(drawn("mixup:1", 8 * i)));
    seen.insert(key(drawn("mixup:1", 0, std::uint64_t(i))));
    seen.insert(key(drawn("mixup:1", 0, 0, std::uint64_t(i))));
  }
  EXPECT_EQ(seen.size(), 58u);  // position 0, epoch 0, seed 1 is drawn three times
}

TEST(Mix, DrawsOneOfBothKinds) {
  int cuts = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(drawn("mixup", i).cuts);
    EXPECT_TRUE(drawn("cutmix", i).cuts);
    const Mix either = drawn("mixup,cutmix", i);
    cuts += either.cuts;
    // Each draws as it would alone.
    EXPECT_EQ(key(either), key(drawn(either.cuts ? "cutmix" : "mixup", i)));
  }
  EXPECT_NEAR(cuts, 500, 5 * 16);  // binomial deviation sqrt(1000 / 4) = 16
}

TEST(Mix, ABoxLiesInTheImageAndItsShareIsTheWeight) {
  bool some = false;
  for (int i = 0; i < 1000; ++i) {
    const Mix mix = drawn("cutmix", i);
    ASSERT_TRUE(mix.left >= 0 && mix.left <= mix.right && mix.right <= 24);
    ASSERT_TRUE(mix.top >= 0 && mix.top <= mix.bottom && mix.bottom <= 32);
    const auto pixels = double((mix.right - mix.left) * (mix.bottom - mix.top));
    EXPECT_NEAR(mix.weight * 0x1p-24, 1 - pixels / (32 * 24), 0x1p-24);
    some |= pixels > 100;
  }
  EXPECT_TRUE(some);
}

/// Inputs and targets of micro-batches of 16, the last of 4.
std::vector<std::byte> mixed_epoch(const char* augmentation, int workers) {
  Loader loader(glyphs(100, 1).train,
                {.workers = workers,
                 .micro_batch = 16,
                 .seed = 5,
                 .augmentation = parse_augmentation(augmentation)},
                [next = std::int64_t{0}](LoadRequest& request) mutable {
                  if (next == 100) return false;
                  request.position = next;
                  for (; next < std::min<std::int64_t>(request.position + 16, 100); ++next)
                    request.samples.push_back(next);
                  return true;
                });
  std::vector<std::byte> bytes;
  for (int i = 0; i < 7; ++i) {
    const LoadedBatch batch = loader.next();
    const bool mixed = std::string(augmentation).find("mix") != std::string::npos;
    EXPECT_EQ(batch.mixed, mixed);
    bytes.insert(bytes.end(), batch.input, batch.input + batch.samples * 784);
    bytes.insert(bytes.end(), batch.target, batch.target + batch.samples * (mixed ? 16 : 4));
  }
  return bytes;
}

TEST(MixingLoader, BytesDoNotDependOnWorkers) {
  const std::vector<std::byte> expected = mixed_epoch("flip,mixup:1,cutmix", 0);
  EXPECT_EQ(expected.size(), 100u * 800);
  EXPECT_EQ(mixed_epoch("flip,mixup:1,cutmix", 1), expected);
  EXPECT_EQ(mixed_epoch("flip,mixup:1,cutmix", 3), expected);
  EXPECT_NE(mixed_epoch("flip,mixup:1", 0), expected);
}

// After all other changes, which are those of a run that does not mix.
TEST(MixingLoader, MixesWhatIsAugmented) {
  const std::vector<std::byte> plain = mixed_epoch("shift,flip", 0),
                               got = mixed_epoch("shift,flip,mixup:1", 0);
  const Mix mix = draw_mix(parse_augmentation("mixup:1"), {28, 28, 1}, 5, 0, 0);
  std::vector<std::byte> first(plain.begin(), plain.begin() + 16 * 784), scratch(784);
  mix_images(mix, {28, 28, 1}, 16, first.data(), scratch.data());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), got.begin()));
  float target[4];
  std::memcpy(target, got.data() + 16 * 784 + 3 * 16, sizeof target);
  std::int32_t own = 0, partner = 0;
  std::memcpy(&own, plain.data() + 16 * 784 + 3 * 4, 4);
  std::memcpy(&partner, plain.data() + 16 * 784 + 2 * 4, 4);
  EXPECT_EQ(target[0], float(own));
  EXPECT_EQ(target[2], float(partner));
  EXPECT_EQ(target[1], float(mix.weight) * 0x1p-24f);
  EXPECT_EQ(target[1] + target[3], 1);
}

TEST(MixingLoader, AnImageAloneStaysAsItIs) {
  Mix mix = average_with(0.3);
  std::vector<std::byte> image{std::byte{0}, std::byte{7}, std::byte{255}}, scratch(3);
  const std::vector<std::byte> before = image;
  mix_images(mix, {1, 1, 3}, 1, image.data(), scratch.data());
  EXPECT_EQ(image, before);
}

TEST(MixingLoader, RefusesWhatCannotBeMixed) {
  const auto error = [](const std::shared_ptr<const Dataset>& data, std::int64_t micro_batch) {
    return error_of<ConfigError>([&] {
      Loader loader(
          data,
          {.workers = 0, .micro_batch = micro_batch, .augmentation = parse_augmentation("mixup")},
          [](LoadRequest&) { return false; });
    });
  };
  const auto images = glyphs(10, 1).train;
  EXPECT_THAT(error(images, 1),
              HasSubstr("`augment`: mixup:0.2 mixes the images of a micro-batch, so `micro_batch` "
                        "must be 2 or more, got 1"));
  SampleSpec spec = images->spec();
  spec.ignore_index = 3;
  EXPECT_THAT(error_of<ConfigError>([&] { check_mixed(spec); }),
              HasSubstr("cannot be combined with `ignore_index`:"));
  spec = images->spec();
  spec.target = {{2}, DType::f32};
  spec.classes = 0;
  EXPECT_THAT(error_of<ConfigError>([&] { check_mixed(spec); }),
              HasSubstr("mixup and cutmix need one class a sample, but the targets are f32[2]"));
  spec = images->spec();
  spec.classes = (1 << 24) + 1;
  EXPECT_THAT(error_of<ConfigError>([&] { check_mixed(spec); }),
              HasSubstr("at most 16777216 classes, got 16777217"));
}

}  // namespace
}  // namespace lockstep::data
