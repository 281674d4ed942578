// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "core/io/tokenizer/tokenizer_file.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "lockstep/tokens/tokenizer.h"
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
  std::vector<std::string> class_names() const override { return names; }
  Preprocessing preprocessing() const override {
    Preprocessing record = Dataset::preprocessing();
    record.source = kind;
    record.tokenizer = tokenizer;
    return record;
  }

  std::vector<std::string> names;
  std::string kind = "custom";
  std::shared_ptr<const Tokenizer> tokenizer;

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

// A folder's cat may be number 0, and another source's number 0 a dog.
TEST(MixedSources, ClassesOfAllPartsHaveTheSameNames) {
  const auto named = [](std::vector<std::string> names, std::string kind = "images") {
    auto part = std::make_shared<Numbered>(10, 0);
    part->names = std::move(names);
    part->kind = std::move(kind);
    return DataSplit{part, nullptr};
  };
  const auto error = [](const std::vector<DataSplit>& sources) {
    return error_of<ConfigError>(
        [&] { mixed_sources(sources, std::vector<double>(sources.size(), 1.0), 1); });
  };
  const DataSplit nameless = named({}, "numpy"), cats = named({"ant", "bee", "cat"});
  EXPECT_EQ(error({cats, cats}), "");
  EXPECT_EQ(error({nameless, named({"ant", "bee", "cat"}, "cifar10")}), "");  // by its numbers
  EXPECT_EQ(error({nameless, named({"0", "1", "2"})}), "");
  EXPECT_THAT(error({nameless, cats}),
              HasSubstr("has 'ant', 'bee', 'cat' and numbered 0 has none"));
  EXPECT_THAT(error({named({}, "cifar10"),
                     named({"ant", "bee", "cat"}, "cifar10"),
                     named({"bee", "ant", "cat"}, "cifar10")}),
              HasSubstr("has 'bee', 'ant', 'cat'"));
}

TEST(MixedSources, TokensAreOfOneTokenizer) {
  const auto made_by = [](const std::string& file) {
    auto part = std::make_shared<Numbered>(10, 0);
    if (!file.empty())
      part->tokenizer = std::make_shared<const Tokenizer>(
          io::read_tokenizer(LOCKSTEP_SOURCE_DIR "/tests/data/tokenizer_goldens/" + file));
    return DataSplit{part, nullptr};
  };
  const auto error = [](const DataSplit& a, const DataSplit& b) {
    return error_of<ConfigError>([&] { mixed_sources({a, b}, {1, 1}, 1); });
  };
  const DataSplit unknown = made_by(""), plain = made_by("tokenizer.json");
  EXPECT_EQ(error(unknown, unknown), "");
  EXPECT_EQ(error(plain, made_by("tokenizer.json")), "");
  EXPECT_THAT(error(plain, made_by("spaced.json")), HasSubstr("need the same tokenizer"));
  EXPECT_THAT(error(unknown, plain), HasSubstr("need the same tokenizer"));
}

}  // namespace
}  // namespace lockstep::data
