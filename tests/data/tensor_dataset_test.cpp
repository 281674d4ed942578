// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/tensor_dataset.h"

#include <limits>

#include "lockstep/data/preprocessing.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const std::vector<float> kPoints = {0, 1, 2, 3, 4, 5};
const std::vector<std::int32_t> kLabels = {2, 0, 1};

std::vector<float> floats_of(const std::vector<std::byte>& bytes, std::size_t count) {
  std::vector<float> floats(count);
  std::memcpy(floats.data(), bytes.data(), count * sizeof(float));
  return floats;
}

SampleSpec tokens_of_five() {
  return {.input = {.shape = {2}, .dtype = DType::i32},
          .target = {.shape = {2}, .dtype = DType::i32},
          .classes = 5,
          .ignore_index = -100,
          .scale = {},
          .shift = {}};
}

std::string error_of_tokens(const std::vector<std::int32_t>& inputs,
                            const std::vector<std::int32_t>& targets) {
  return error_of<Error>([&] {
    TensorDataset(
        tokens_of_five(), std::as_bytes(std::span(inputs)), std::as_bytes(std::span(targets)));
  });
}

TEST(TensorDataset, GivesSamplesAndClassesBackThatTheCallerMayForget) {
  std::vector<float> points = kPoints;
  std::vector<std::int32_t> labels = kLabels;
  const TensorDataset dataset(Shape{2}, points, labels, 3);
  points.assign(6, kNaN);
  labels.assign(3, -1);
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_EQ(dataset.spec().input, (TensorType{{2}, DType::f32}));
  EXPECT_EQ(dataset.spec().classes, 3);
  EXPECT_THAT(floats_of(sample_bytes(dataset, 0, 1), 2), ElementsAre(2, 3));
  EXPECT_EQ(label_of(dataset, 5, 1), 0);
  EXPECT_EQ(dataset.label(2), 1);
  EXPECT_EQ(dataset.preprocessing().task, Task::classification);
  EXPECT_THAT(dataset.describe(), HasSubstr("3 samples in memory"));
}

TEST(TensorDataset, PredictsNumbers) {
  const TensorDataset dataset(Shape{3}, kPoints, std::vector<float>{1, 2, 3, 4});
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_THAT(floats_of(sample_bytes(dataset, 0, 1), 5), ElementsAre(3, 4, 5, 3, 4));
  EXPECT_EQ(dataset.preprocessing().task, Task::regression);
}

TEST(TensorDataset, TakesWhatASpecSays) {
  const std::vector<std::uint8_t> images = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> animals = {0, 1, 1, 1};
  const TensorDataset dataset({.input = {.shape = {2, 2, 1}, .dtype = DType::u8},
                               .target = {.shape = {2}, .dtype = DType::f32},
                               .multi_label = true,
                               .ignore_index = {},
                               .scale = {1.0f / 255},
                               .shift = {0}},
                              std::as_bytes(std::span(images)),
                              std::as_bytes(std::span(animals)),
                              {"cat", "dog"});
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(sample_bytes(dataset, 0, 1)[0], std::byte{5});
  EXPECT_THAT(dataset.class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(dataset.preprocessing().task, Task::multi_label);
}

// Ranks that hold other data, and a resume with other data, are noticed by it.
TEST(TensorDataset, FingerprintIsOfEveryByte) {
  const std::uint64_t hash = TensorDataset(Shape{2}, kPoints, kLabels, 3).fingerprint();
  EXPECT_EQ(TensorDataset(Shape{2}, kPoints, kLabels, 3).fingerprint(), hash);
  EXPECT_NE(TensorDataset(Shape{2}, kPoints, kLabels, 4).fingerprint(), hash);
  EXPECT_NE(TensorDataset(Shape{2, 1}, kPoints, kLabels, 3).fingerprint(), hash);
  std::vector<float> points = kPoints;
  points.back() += 1;
  EXPECT_NE(TensorDataset(Shape{2}, points, kLabels, 3).fingerprint(), hash);
  EXPECT_NE(TensorDataset(Shape{2}, kPoints, std::vector<std::int32_t>{2, 0, 0}, 3).fingerprint(),
            hash);
}

TEST(TensorDataset, CountsThatDoNotFitAreRefused) {
  const auto error = [](const Shape& sample, std::size_t inputs, std::size_t labels) {
    return error_of<ConfigError>([&] {
      TensorDataset(sample, std::vector<float>(inputs), std::vector<std::int32_t>(labels), 3);
    });
  };
  EXPECT_THAT(error(Shape{2}, 5, 2), AllOf(HasSubstr("20 bytes"), HasSubstr("have 8 each")));
  EXPECT_THAT(error(Shape{2}, 6, 2), AllOf(HasSubstr("3 samples"), HasSubstr("2 targets")));
  EXPECT_THAT(error(Shape{2}, 0, 0), HasSubstr("expected a multiple"));
  EXPECT_THAT(error(Shape{0}, 6, 3), HasSubstr("0 elements"));
  EXPECT_THAT(error_of<ConfigError>([] { TensorDataset(Shape{2}, kPoints, kLabels, 0); }),
              HasSubstr("0 classes"));
  EXPECT_THAT(error_of<ConfigError>([] { TensorDataset(Shape{0}, kPoints, kPoints); }),
              HasSubstr("6 inputs"));
  EXPECT_THAT(
      error_of<ConfigError>([] { TensorDataset(Shape{2}, kPoints, std::vector<float>(4)); }),
      HasSubstr("4 targets"));
  EXPECT_THAT(error_of<ConfigError>([] { TensorDataset(tokens_of_five(), {}, {}); }),
              HasSubstr("expected a multiple"));
  EXPECT_THAT(error_of<ConfigError>([] { TensorDataset(tokens_of_five(), {}, {}, {"one"}); }),
              HasSubstr("1 names for 5 classes"));
}

// What would be read otherwise, or later, or beyond what is there.
TEST(TensorDataset, SpecsThatContradictThemselvesAreRefused) {
  const SampleSpec numbers{.input = {.shape = {2}, .dtype = DType::f32},
                           .target = {.shape = {1}, .dtype = DType::f32},
                           .ignore_index = {},
                           .scale = {},
                           .shift = {}};
  const auto error = [&](auto change) {
    SampleSpec spec = numbers;
    change(spec);
    return error_of<ConfigError>([&] {
      TensorDataset(
          spec, std::as_bytes(std::span(kPoints)), std::as_bytes(std::span(kPoints).first(3)));
    });
  };
  EXPECT_THAT(error([](SampleSpec&) {}), IsEmpty());
  EXPECT_THAT(error([](SampleSpec& s) { s.target.shape = {std::int64_t{1} << 61}; }),
              HasSubstr("targets of f32"));
  EXPECT_THAT(error([](SampleSpec& s) { s.target.shape = {0}; }), HasSubstr("0 elements"));
  EXPECT_THAT(error([](SampleSpec& s) { s.input.shape = {std::int64_t{1} << 62}; }),
              HasSubstr("inputs of f32"));
  EXPECT_THAT(error([](SampleSpec& s) { s.embedded = {{.feature = 7, .categories = 2}}; }),
              HasSubstr("got feature 7"));
  EXPECT_THAT(error([](SampleSpec& s) { s.scale = {1}; }), HasSubstr("1 values of scale"));
  EXPECT_THAT(error([](SampleSpec& s) { s.ignore_index = 0; }), HasSubstr("ignored"));
  EXPECT_THAT(error([](SampleSpec& s) { s.input.dtype = DType::i32; }), HasSubstr("vocabulary"));
  EXPECT_THAT(error([](SampleSpec& s) { s.input.dtype = DType::bf16; }), HasSubstr("bf16"));
  EXPECT_THAT(error([](SampleSpec& s) {
                s.target = {.shape = {}, .dtype = DType::i32};
                s.classes = 3;
                s.multi_label = true;
              }),
              HasSubstr("several labels"));
}

TEST(TensorDataset, BatchesAreSamplesOneAfterTheOther) {
  const TensorDataset dataset(Shape{2}, kPoints, kLabels, 3);
  const std::vector<std::int64_t> indices = {2, 0, 2};
  std::vector<float> inputs(6);
  std::vector<std::int32_t> labels(3);
  dataset.load_batch(0,
                     indices,
                     std::as_writable_bytes(std::span(inputs)).data(),
                     std::as_writable_bytes(std::span(labels)).data());
  EXPECT_THAT(inputs, ElementsAre(4, 5, 0, 1, 4, 5));
  EXPECT_THAT(labels, ElementsAre(1, 2, 1));
}

TEST(TensorDataset, ValuesThatCannotBeAreNamedByPlace) {
  EXPECT_THAT(
      error_of<DataError>([] {
        TensorDataset(Shape{2}, std::vector<float>{0, 1, 2, kNaN}, std::vector<float>{1, 2});
      }),
      HasSubstr("input 1 of sample 1 is nan"));
  EXPECT_THAT(error_of<DataError>([] {
                TensorDataset(Shape{2}, kPoints, std::vector<float>{1, kNaN, 3});
              }),
              HasSubstr("target 0 of sample 1 is nan"));
  EXPECT_THAT(error_of<DataError>([] { TensorDataset(Shape{2}, kPoints, kLabels, 2); }),
              AllOf(HasSubstr("of sample 0 is 2"), HasSubstr("0 to 1")));
  EXPECT_THAT(error_of_tokens({0, 4}, {-100, 3}), IsEmpty());
  EXPECT_THAT(error_of_tokens({0, 5}, {4, 3}), HasSubstr("input 1 of sample 0 is 5"));
  EXPECT_THAT(error_of_tokens({0, 4}, {4, -1}), HasSubstr("target 1 of sample 0 is -1"));
  SampleSpec spec{.input = {.shape = {2}, .dtype = DType::f32},
                  .target = {.shape = {1}, .dtype = DType::f32},
                  .multi_label = true,
                  .ignore_index = {},
                  .scale = {},
                  .shift = {},
                  .embedded = {{.feature = 1, .categories = 4}}};
  const auto error = [&](std::vector<float> input, float target) {
    return error_of<DataError>([&] {
      TensorDataset(spec, std::as_bytes(std::span(input)), std::as_bytes(std::span(&target, 1)));
    });
  };
  EXPECT_THAT(error({9, 3}, 1), IsEmpty());
  EXPECT_THAT(error({9, 4}, 1), HasSubstr("input 1 of sample 0 is 4"));
  EXPECT_THAT(error({9, 0.5f}, 1), HasSubstr("the index of a category"));
  EXPECT_THAT(error({9, 3}, 0.5f), HasSubstr("0 or 1"));
}

}  // namespace
}  // namespace lockstep::data
