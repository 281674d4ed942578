// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/class_weights.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/settings/open_data.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Letters final : public data::Dataset {
 public:
  explicit Letters(std::vector<std::int32_t> labels) : labels_(std::move(labels)) {
    spec_.input = {{1}, DType::f32};
    spec_.target = {{}, DType::i32};
    spec_.classes = 3;
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return std::ssize(labels_); }
  void load(std::uint64_t, std::int64_t index, std::byte* input, std::byte* target) const override {
    std::memset(input, 0, sizeof(float));
    std::memcpy(target, &labels_[std::size_t(index)], sizeof(std::int32_t));
  }
  std::string describe() const override { return "letters"; }
  std::vector<std::string> class_names() const override { return {"a", "b", "c"}; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  std::vector<std::int32_t> labels_;
  data::SampleSpec spec_;
};

TrainFlags resolved(const std::string& text, std::vector<std::int32_t> labels = {0, 1, 2}) {
  TrainFlags flags;
  flags.class_weights = text;
  resolve_class_weights(flags, Letters(std::move(labels)));
  return flags;
}

std::string weights_error(const std::string& text, std::vector<std::int32_t> labels = {0, 1, 2}) {
  try {
    resolved(text, std::move(labels));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ClassWeights, BalancedIsScikitLearns) {
  // compute_class_weight("balanced"): 8 / (3 * [4, 3, 1])
  const TrainFlags flags = resolved("balanced", {0, 0, 1, 2, 1, 0, 1, 0});
  EXPECT_THAT(class_weights(flags, 3),
              ElementsAre(float(8.0 / 12), float(8.0 / 9), float(8.0 / 3)));
  // config.toml has the numbers, and a run that reads them trains with the same.
  EXPECT_EQ(resolved(flags.class_weights).class_weights, flags.class_weights);
}

TEST(ClassWeights, ListsAndFiles) {
  EXPECT_TRUE(class_weights(resolved(""), 3).empty());
  EXPECT_THAT(class_weights(resolved("1,0.5,0"), 3), ElementsAre(1, 0.5f, 0));
  const auto file = std::filesystem::path(testing::TempDir()) / "lockstep_class_weights.txt";
  std::ofstream(file) << "1\n 2.5,\n0.125\n";
  EXPECT_EQ(resolved(file.string()).class_weights, "1,2.5,0.125");
  std::ofstream(file) << "1 two 3";
  EXPECT_THAT(weights_error(file.string()), HasSubstr("'two' is not a number"));
  std::filesystem::remove(file);
  EXPECT_THAT(weights_error(file.string()), HasSubstr("lockstep_class_weights.txt"));
}

TEST(ClassWeights, RefusesWhatIsNoWeightForEachClass) {
  EXPECT_THAT(weights_error("1,2"),
              HasSubstr("expected a weight for each of the 3 classes, got 2"));
  EXPECT_THAT(weights_error("1,2,3,4"), HasSubstr("of the 3 classes, got 4"));
  EXPECT_THAT(weights_error("1,-2,3"), HasSubstr("finite numbers of at least 0, got -2"));
  EXPECT_THAT(weights_error("1,inf,3"), HasSubstr("finite numbers of at least 0, got inf"));
  EXPECT_THAT(weights_error("0,0,0"), HasSubstr("all weights are 0"));
  EXPECT_THAT(weights_error("balanced", {0, 0, 2}),
              HasSubstr("class 1 'b' has no training sample"));
}

TEST(ClassWeights, BelongToCrossEntropy) {
  TrainFlags flags;
  flags.class_weights = "1,2,3";
  data::SampleSpec numbers;
  numbers.input = {{1}, DType::f32};
  numbers.target = {{3}, DType::f32};
  try {
    make_loss(flags, numbers);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--class-weights cannot be combined with --loss mse"));
  }
  EXPECT_EQ(loss_settings(flags, Letters({0}).spec()).back().second, "1,2,3");
}

}  // namespace
}  // namespace lockstep
