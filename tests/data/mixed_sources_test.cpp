// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "lockstep/error.h"
#include "lockstep/sources.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

/// Samples that say their number and their source; of `size`.
class Numbered final : public Dataset {
 public:
  Numbered(std::int64_t size, float source, int classes = 3)
      : size_(size), source_(source), classes_(classes) {
    spec_.input = {{3}, DType::f32};
    spec_.target = {{}, DType::i32};
    spec_.classes = classes;
  }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    const float values[] = {source_, float(index), float(epoch)};
    const auto label = std::int32_t(index % classes_);
    std::memcpy(input, values, sizeof values);
    std::memcpy(target, &label, sizeof label);
  }
  std::string describe() const override { return fmt::format("numbered {}", source_); }
  std::uint64_t fingerprint() const override { return std::uint64_t(size_); }

 private:
  std::int64_t size_;
  float source_;
  int classes_;
  SampleSpec spec_;
};

DataSplit numbered(std::int64_t size, float source, std::int64_t kept = 0, int classes = 3) {
  return {std::make_shared<Numbered>(size, source, classes),
          kept > 0 ? std::make_shared<Numbered>(kept, source, classes) : nullptr};
}

TEST(MixedSources, EachGivesItsShareOfAnEpochAndNoSampleTwiceBeforeAllHaveCome) {
  const DataSplit mixed = mixed_sources({numbered(100, 0), numbered(37, 1)}, {0.7, 0.3}, 5);
  ASSERT_EQ(mixed.train->size(), 137);
  std::map<float, std::map<float, int>> times;  // source -> sample -> how often it has come
  for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
    std::map<float, int> count;
    for (std::int64_t i = 0; i < 137; ++i) {
      const std::vector<std::byte> bytes = sample_bytes(*mixed.train, epoch, i);
      float values[3];
      std::memcpy(values, bytes.data(), sizeof values);
      ++count[values[0]];
      const int before = times[values[0]][values[1]]++;
      EXPECT_EQ(float(before), values[2]);  // the pass over the source is its epoch
    }
    // 95.9 and 41.1 of 137.
    EXPECT_EQ(count[0], 96);
    EXPECT_EQ(count[1], 41);
  }
  for (const auto& [source, samples] : times) {
    EXPECT_EQ(samples.size(), source == 0 ? 100u : 37u);
    int least = 1 << 20, most = 0;
    for (const auto& [sample, often] : samples) {
      least = std::min(least, often);
      most = std::max(most, often);
    }
    EXPECT_LE(most - least, 1) << source;
  }
  EXPECT_THAT(mixed.train->describe(), HasSubstr("137 samples an epoch: 96 (70.1%) of numbered 0"));
}

TEST(MixedSources, TheOrderDependsOnSeedAndPassAndIsNeitherTheSourcesNorTheLast) {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    const DataSplit mixed = mixed_sources({numbered(64, 0), numbered(64, 1)}, {1, 1}, seed);
    std::vector<float> samples;
    for (std::int64_t i = 0; i < 64; ++i)
      samples.push_back(0),
          std::memcpy(&samples.back(), sample_bytes(*mixed.train, epoch, i).data() + 4, 4);
    return samples;
  };
  const std::vector<float> first = order(1, 0);
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), 64u);
  EXPECT_EQ(first, order(1, 0));
  EXPECT_NE(first, order(1, 1));
  EXPECT_NE(first, order(2, 0));
  int in_place = 0;
  for (std::size_t i = 0; i < 64; ++i) in_place += first[i] == float(i);
  EXPECT_LT(in_place, 10);  // of a random order 1 on average, 10 in one of 10^7
}

TEST(MixedSources, ValidationIsAllOfAllParts) {
  const DataSplit mixed =
      mixed_sources({numbered(10, 0, 4), numbered(10, 1), numbered(10, 2, 3)}, {1, 2, 1}, 1);
  ASSERT_EQ(mixed.validation->size(), 7);
  EXPECT_EQ(features_of(*mixed.validation, 3), (std::vector<float>{0, 3, 0}));
  EXPECT_EQ(features_of(*mixed.validation, 4), (std::vector<float>{2, 0, 0}));
  EXPECT_EQ(mixed.validation->label(6), 2);
}

TEST(MixedSources, RefusesWhatCannotBeMixed) {
  const auto error = [](const std::vector<DataSplit>& sources, const std::vector<double>& weights) {
    return error_of<ConfigError>([&] { mixed_sources(sources, weights, 1); });
  };
  const DataSplit a = numbered(10, 0), b = numbered(10, 1);
  EXPECT_THAT(error({a, b}, {1}), HasSubstr("a weight for each of 2 sources, got 1"));
  EXPECT_THAT(error({a}, {1}), HasSubstr("each of 1 sources"));
  EXPECT_THAT(error({a, b}, {1, 0}), HasSubstr("numbers above 0, got 0"));
  EXPECT_THAT(error({a, b}, {1, 1e-9}), HasSubstr("gives numbered 1 no sample"));
  EXPECT_THAT(error({a, numbered(10, 1, 0, 4)}, {1, 1}),
              HasSubstr("the same number of classes, but numbered 0 and numbered 1 differ"));
  EXPECT_THAT(error({a, {}}, {1, 1}), HasSubstr("no training part"));
}

}  // namespace
}  // namespace lockstep::data
