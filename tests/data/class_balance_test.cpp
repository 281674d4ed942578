// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "core/data/ignore_label.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

/// Samples that say their own number, with these labels; `anew`: other labels in other epochs.
class Labelled final : public Dataset {
 public:
  explicit Labelled(std::vector<std::int32_t> labels, int classes = 3, bool anew = false)
      : labels_(std::move(labels)), anew_(anew) {
    spec_.input = {{1}, DType::f32};
    spec_.target = {{}, DType::i32};
    spec_.classes = classes;
  }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return std::ssize(labels_); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    const auto value = float(index);
    std::int32_t label = labels_[std::size_t(index)];
    if (anew_ && epoch > 0) label = (label + 1) % spec_.classes;
    std::memcpy(input, &value, sizeof value);
    std::memcpy(target, &label, sizeof label);
  }
  std::string describe() const override { return "labelled"; }
  std::vector<std::string> class_names() const override { return {"ant", "bee", "cat"}; }
  std::uint64_t fingerprint() const override { return 7; }

 private:
  std::vector<std::int32_t> labels_;
  bool anew_;
  SampleSpec spec_;
};

/// 90 of class 0, 9 of class 1, 1 of class 2.
std::vector<std::int32_t> skewed() {
  std::vector<std::int32_t> labels(100, 0);
  for (std::size_t i = 90; i < 99; ++i) labels[i] = 1;
  labels[99] = 2;
  return labels;
}

std::pair<float, std::int32_t> load_one(const Dataset& data, std::uint64_t epoch, std::int64_t i) {
  float value = 0;
  std::int32_t label = 0;
  data.load(epoch, i, reinterpret_cast<std::byte*>(&value), reinterpret_cast<std::byte*>(&label));
  return {value, label};
}

TEST(ClassCounts, CountEachClass) {
  EXPECT_EQ(class_counts(Labelled(skewed())), (std::vector<std::int64_t>{90, 9, 1}));
  const auto ignoring = ignore_label(std::make_shared<Labelled>(skewed()), 1);
  EXPECT_EQ(class_counts(*ignoring), (std::vector<std::int64_t>{90, 0, 1}));
  EXPECT_THAT(error_of<DataError>([] {
                class_counts(Labelled({0, 3}));
              }),
              HasSubstr("label 3 is not one of the 3 classes, 0 to 2"));
}

TEST(BalancedClasses, DrawsClassesAlike) {
  const auto data = balanced_classes(std::make_shared<Labelled>(skewed()), 1);
  ASSERT_EQ(data->size(), 100);
  constexpr int kEpochs = 60;
  std::map<std::int32_t, int> classes;
  std::map<float, int> of_bees;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch)
    for (std::int64_t i = 0; i < data->size(); ++i) {
      const auto [value, label] = load_one(*data, epoch, i);
      ASSERT_EQ(label, skewed()[std::size_t(value)]);
      ++classes[label];
      if (label == 1) ++of_bees[value];
    }
  // Five binomial deviations.
  constexpr double kDraws = 100 * kEpochs;
  for (int k = 0; k < 3; ++k)
    EXPECT_NEAR(classes[k], kDraws / 3, 5 * std::sqrt(kDraws * 2 / 9)) << "class " << k;
  ASSERT_EQ(of_bees.size(), 9u);
  for (const auto& [value, count] : of_bees)
    EXPECT_NEAR(count, kDraws / 27, 5 * std::sqrt(kDraws / 27)) << "sample " << value;
}

TEST(BalancedClasses, IsKeyedBySeedEpochAndIndex) {
  const auto data = std::make_shared<Labelled>(skewed());
  const auto a = balanced_classes(data, 1), same = balanced_classes(data, 1),
             other = balanced_classes(data, 2);
  int by_seed = 0, by_epoch = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(load_one(*a, 3, i), load_one(*same, 3, i));
    by_seed += load_one(*a, 3, i) != load_one(*other, 3, i);
    by_epoch += load_one(*a, 3, i) != load_one(*a, 4, i);
  }
  // A third of a third of them are equal by chance in class 2, few in the others.
  EXPECT_GT(by_seed, 60);
  EXPECT_GT(by_epoch, 60);
  EXPECT_EQ(a->fingerprint(), same->fingerprint());
  EXPECT_NE(a->fingerprint(), other->fingerprint());
  EXPECT_NE(a->fingerprint(), data->fingerprint());
}

TEST(BalancedClasses, RefusesWhatCannotBeBalanced) {
  const auto error = [](std::shared_ptr<const Dataset> data) {
    return error_of<ConfigError>([&] { balanced_classes(data, 1); });
  };
  EXPECT_THAT(error(std::make_shared<Labelled>(std::vector<std::int32_t>{0, 2, 2})),
              HasSubstr("`balance` classes: class 1 'bee' has no training sample"));
  EXPECT_THAT(error(ignore_label(std::make_shared<Labelled>(skewed()), 2)),
              HasSubstr("class 2 'cat' has no training sample"));
  const auto anew = balanced_classes(std::make_shared<Labelled>(skewed(), 3, true), 1);
  load_one(*anew, 0, 0);
  EXPECT_THAT(error_of<DataError>([&] { load_one(*anew, 1, 0); }),
              HasSubstr("samples that are drawn anew cannot be balanced"));
}

}  // namespace
}  // namespace lockstep::data
