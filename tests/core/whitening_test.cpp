// SPDX-License-Identifier: Apache-2.0
// Whitening filters of images, and filters that start as identities.
#include "core/nn/whitening.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/nn/initialise.h"
#include "lockstep/error.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSide = 9, kChannels = 3, kKernel = 2;
constexpr std::size_t kSize = kKernel * kKernel * kChannels;
constexpr double kEps = 5e-4;
const Shape kFilters{2 * std::int64_t(kSize), kKernel, kKernel, kChannels};

/// Smooth noise whose channels hang together, as those of photographs do. Every image from `bad` on
/// cannot be read, and one may be infinite.
class Clouds final : public data::Dataset {
 public:
  explicit Clouds(DType type = DType::u8, std::int64_t bad = 1000, std::int64_t infinite = -1)
      : bad_(bad), infinite_(infinite) {
    spec_.input = {{kSide, kSide, kChannels}, type};
    spec_.target = {{}, DType::i32};
    spec_.scale = {1 / 64.0f, 1 / 60.0f, 1 / 70.0f};
    spec_.shift = {-2.0f, -1.9f, -1.6f};
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return 64; }
  void load(std::uint64_t, std::int64_t index, std::byte* input, std::byte* target) const override {
    if (index >= bad_) throw DataError("clouds: a bad image");
    const RandomBlock common = philox(1, std::uint64_t(index), 0);
    for (std::uint64_t i = 0; i < kSide * kSide * kChannels; ++i) {
      const std::uint32_t own = philox(2, std::uint64_t(index), i / kChannels)[i % kChannels];
      const auto value = std::uint8_t(common[0] % 100 + own % 120);
      if (spec_.input.dtype == DType::u8) {
        input[i] = std::byte(value);
      } else {
        const float number = index == infinite_ ? INFINITY : value;
        std::memcpy(input + i * sizeof number, &number, sizeof number);
      }
    }
    const std::int32_t label = 0;
    std::memcpy(target, &label, sizeof label);
  }
  std::string describe() const override { return "clouds"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  std::int64_t bad_, infinite_;
  data::SampleSpec spec_;
};

/// E[p p^T] of the patches of images below `count`.
std::vector<double> second_moment(std::int64_t count) {
  const Clouds clouds;
  std::vector<std::byte> image(kSide * kSide * kChannels), target(4);
  std::vector<double> sum(kSize * kSize), patch(kSize);
  for (std::int64_t i = 0; i < count; ++i) {
    clouds.load(0, i, image.data(), target.data());
    for (std::int64_t at = 0; at < (kSide - 1) * (kSide - 1); ++at) {
      for (std::size_t e = 0; e < kSize; ++e) {
        const std::int64_t y = at / (kSide - 1) + std::int64_t(e / 6),
                           x = at % (kSide - 1) + e / 3 % 2;
        const std::size_t c = e % 3;
        patch[e] = std::to_integer<int>(image[std::size_t((y * kSide + x) * 3) + c]) *
                       double(clouds.spec().scale[c]) +
                   double(clouds.spec().shift[c]);
      }
      for (std::size_t e = 0; e < kSize * kSize; ++e) sum[e] += patch[e / kSize] * patch[e % kSize];
    }
  }
  for (double& value : sum) value /= double(count * (kSide - 1) * (kSide - 1));
  return sum;
}

double dot(const float* a, const float* b) {
  double sum = 0;
  for (std::size_t i = 0; i < kSize; ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

// w_i = v_i / sqrt(l_i + eps) has |w_i|^2 = 1 / (l_i + eps), and so w_i^T S w_i = 1 - eps |w_i|^2:
// but for eps the outputs' second moment is the identity. A coefficient is rounded by 2^-24 of
// itself, so that w_i^T S w_j is off by at most 2 * 2^-24 |w_i| sqrt(l_j).
TEST(Whitening, TheSecondMomentOfWhitenedPatchesIsTheIdentity) {
  const std::vector<float> filters = whitening_filters(Clouds(), kFilters, false);
  ASSERT_EQ(filters.size(), 2 * kSize * kSize);
  const std::vector<double> moment = second_moment(64);
  const auto filter = [&](std::size_t i) { return filters.data() + i * kSize; };
  const double largest = std::sqrt(dot(filter(kSize - 1), filter(kSize - 1)));
  const double smallest = std::sqrt(dot(filter(0), filter(0)));
  EXPECT_GT(largest, 2 * smallest);  // something is whitened
  for (std::size_t i = 0; i < kSize; ++i) {
    const std::size_t before = i == 0 ? 0 : i - 1;
    EXPECT_GE(dot(filter(i), filter(i)), dot(filter(before), filter(before)));
    for (std::size_t j = 0; j < kSize; ++j) {
      EXPECT_EQ(filter(kSize + i)[j], -filter(i)[j]);
      double whitened = 0;
      for (std::size_t e = 0; e < kSize * kSize; ++e)
        whitened += double(filter(i)[e / kSize]) * moment[e] * double(filter(j)[e % kSize]);
      const double expected = i == j ? 1 - kEps * dot(filter(i), filter(i)) : 0;
      EXPECT_NEAR(whitened, expected, 2 * 0x1p-24 * largest / smallest) << i << ' ' << j;
    }
  }
}

TEST(Whitening, LooksAtImagesOfEitherTypeAndSkipsBadOnesWhereAskedTo) {
  const std::vector<float> filters = whitening_filters(Clouds(), kFilters, false);
  EXPECT_EQ(whitening_filters(Clouds(DType::f32), kFilters, false), filters);
  EXPECT_EQ(whitening_filters(Clouds(), kFilters, true), filters);
  const Clouds some(DType::u8, 30), none(DType::u8, 0);
  EXPECT_NE(whitening_filters(some, kFilters, true), filters);
  EXPECT_THROW(whitening_filters(some, kFilters, false), DataError);
  EXPECT_THROW(whitening_filters(none, kFilters, true), DataError);
}

TEST(Whitening, WantsImagesAndTwiceAsManyFiltersAsAPatchHasValues) {
  try {
    whitening_filters(Clouds(), {8, 2, 2, 1}, false);
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("expected images of 1 channels, but clouds has samples of u8"));
  }
  const auto first_of = [](const Conv2dOptions& options) {
    return trace_classifier(
        [options](Builder& nn, Value x) {
          return nn.linear(nn.flatten(nn.conv2d(x, options)), {.out_features = 4});
        },
        {kSide, kSide, kChannels},
        4,
        2);
  };
  EXPECT_THROW(first_of({.out_channels = 12, .kernel = 2, .whitening = true}), ShapeError);
  EXPECT_THROW(first_of({.out_channels = 24, .groups = 3, .dirac_init = true}), ConfigError);
  EXPECT_THROW(first_of({.out_channels = 24, .kernel = 2, .dirac_init = true, .whitening = true}),
               ConfigError);
  EXPECT_THROW(first_of({.out_channels = 24, .he_normal_init = true, .dirac_init = true}),
               ConfigError);
  // Of the model's input itself, normalised by the data's scale or not.
  EXPECT_THROW(trace_classifier(
                   [](Builder& nn, Value x) {
                     x = nn.conv2d(nn.relu(x),
                                   {.out_channels = 24, .kernel = 2, .whitening = true});
                     return nn.linear(nn.flatten(x), {.out_features = 4});
                   },
                   {kSide, kSide, kChannels},
                   4,
                   2),
               ConfigError);
  const Graph graph = first_of({.out_channels = 24, .kernel = 2, .whitening = true});
  EXPECT_TRUE(graph.parameters()[0].frozen);
  EXPECT_FALSE(graph.parameters()[1].frozen);
}

TEST(Whitening, NamesASampleThatIsNotFiniteAndTellsOfEachImage) {
  const Clouds clouds(DType::f32, 1000, 9);
  try {
    whitening_filters(clouds, kFilters, false);
    FAIL() << "expected a DataError";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 9 of clouds has the value inf"));
  }
  int looked_at = 0;
  const auto count = [&] { ++looked_at; };
  EXPECT_EQ(std::ssize(whitening_filters(clouds, kFilters, true, count)), kFilters.elems());
  EXPECT_EQ(looked_at, 64);
}

// torch.nn.init.dirac_ of the first filters; the others are uniform(+-1 / sqrt(fan_in)).
TEST(DiracInit, TheFirstFiltersPassTheirChannelOn) {
  const Graph graph = trace_classifier(
      [](Builder& nn, Value x) {
        x = nn.conv2d(x, {.out_channels = 5, .kernel = 3, .padding = 1, .dirac_init = true});
        x = nn.conv2d(x, {.out_channels = 4, .kernel = 3, .padding = 1, .dirac_init = true});
        return nn.linear(nn.flatten(x), {.out_features = 4});
      },
      {4, 4, 3},
      4,
      1);
  for (const int layer : {0, 2}) {  // 3 to 5 channels, and 5 to 4
    const Parameter& p = graph.parameters()[std::size_t(layer)];
    const std::vector<float> values = initial_values(p, 1);
    const std::int64_t in = p.shape[3];
    const float bound = p.init.value;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto filter = std::int64_t(i) / (9 * in), place = std::int64_t(i) / in % 9;
      const std::int64_t channel = std::int64_t(i) % in;
      if (filter < in) {
        EXPECT_EQ(values[i], place == 4 && channel == filter ? 1 : 0) << layer << ' ' << i;
      } else {
        EXPECT_TRUE(values[i] != 0 && std::abs(values[i]) <= bound) << layer << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
