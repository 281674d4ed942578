// SPDX-License-Identifier: Apache-2.0
// Datasets that change something of another one: what they do not change is the other's.
#include "core/data/forwarding_dataset.h"

#include <array>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>

#include "core/data/growing_images.h"
#include "core/data/ignore_label.h"
#include "core/data/reduced_dataset.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

constexpr int kSide = 32, kSamples = 6;

/// Images whose first bytes say which sample and copy they are, of two classes by turns. Everything
/// that a dataset may say of itself is another thing than the default.
class Telling final : public Dataset {
 public:
  explicit Telling(int side) : side_(side) {
    spec_.input = {{side, side, 1}, DType::u8};
    spec_.target = {{}, DType::i32};
    spec_.classes = 2;
  }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return kSamples; }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    load_copy(epoch, index, 0, input, target);
  }
  void load_copy(std::uint64_t,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    std::memset(input, 0, std::size_t(side_ * side_));
    input[0] = std::byte(index);
    input[1] = std::byte(copy);
    const std::int32_t own = label(index);
    std::memcpy(target, &own, sizeof own);
  }
  std::int32_t label(std::int64_t index) const override { return std::int32_t(index % 2); }
  std::string describe() const override { return "telling"; }
  std::vector<std::string> class_names() const override { return {"ant", "bee"}; }
  Preprocessing preprocessing() const override {
    Preprocessing record = Dataset::preprocessing();
    record.source = "images";
    return record;
  }
  SkippedRecords skipped_records() const override { return {3, {"a.png"}}; }
  std::uint64_t fingerprint() const override { return 7; }
  std::uint64_t decoding_bytes(int threads) const override { return std::uint64_t(threads) * 5; }
  std::shared_ptr<const Dataset> resized(int size) const override {
    return std::make_shared<Telling>(size);
  }
  ContentSample content_sample(std::uint64_t seed) const override { return {seed, 11}; }

 private:
  int side_;
  SampleSpec spec_;
};

using Change = std::shared_ptr<const Dataset> (*)(std::shared_ptr<const Dataset>);

struct Case {
  const char* name;
  Change change;
  bool makes_other_sizes = true;
};

const std::array kCases = {
    Case{"an ignored label", [](auto inner) { return ignore_label(std::move(inner), 1); }},
    Case{"balanced classes", [](auto inner) { return balanced_classes(std::move(inner), 1); }},
    Case{"fewer samples",
         [](auto inner) -> std::shared_ptr<const Dataset> {
           return std::make_shared<ReducedDataset>(std::move(inner), std::vector<std::int64_t>{2});
         }},
    Case{"growing images",
         [](auto inner) -> std::shared_ptr<const Dataset> {
           return std::make_shared<GrowingImages>(std::move(inner), ImageGrowth{kSide, kSide, 1});
         },
         false},
};

/// The copy that a sample says to be.
int copy_in(const Dataset& data, std::int64_t index, int copy) {
  std::vector<std::byte> image(data.spec().input.bytes());
  std::int32_t label = 0;
  data.load_copy(0, index, copy, image.data(), reinterpret_cast<std::byte*>(&label));
  return int(image[1]);
}

TEST(ForwardingDatasets, LeaveTheRestAsItIs) {
  const auto source = std::make_shared<Telling>(kSide);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto data = c.change(source);
    EXPECT_EQ(data->spec().input, source->spec().input);
    EXPECT_EQ(data->specs().front().input, data->spec().input);
    EXPECT_EQ(data->specs().front().ignore_index, data->spec().ignore_index);
    EXPECT_EQ(data->spec_of(0), 0u);
    for (const int copy : {0, 1, 3}) EXPECT_EQ(copy_in(*data, 0, copy), copy);
    EXPECT_EQ(data->class_names(), source->class_names());
    EXPECT_EQ(data->preprocessing().source, "images");
    EXPECT_EQ(data->preprocessing().samples.ignore_index, data->spec().ignore_index);
    EXPECT_EQ(data->skipped_records().count, 3);
    EXPECT_EQ(data->decoding_bytes(2), 10u);
    EXPECT_EQ(data->content_sample(13).hash, 13u);
    EXPECT_EQ(data->content_sample(13).written, 11);
  }
}

// The change is made of the images of the other size as well.
TEST(ForwardingDatasets, OfOtherSizes) {
  const auto source = std::make_shared<Telling>(kSide);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto data = c.change(source);
    const auto other = data->resized(48);
    ASSERT_EQ(other != nullptr, c.makes_other_sizes);
    if (other == nullptr) continue;
    EXPECT_EQ(other->spec().input.shape, Shape({48, 48, 1}));
    EXPECT_EQ(other->spec().ignore_index, data->spec().ignore_index);
    EXPECT_EQ(other->size(), data->size());
    EXPECT_EQ(other->describe(), data->describe());
    EXPECT_EQ(other->fingerprint(), data->fingerprint());
    for (std::int64_t i = 0; i < data->size(); ++i) EXPECT_EQ(other->label(i), data->label(i));
  }
}

// Samples after a missing one are those of the next index, in all that is asked of them.
TEST(ForwardingDatasets, FewerSamplesAreTheOthers) {
  const ReducedDataset data(std::make_shared<Telling>(kSide), {2});
  ASSERT_EQ(data.size(), kSamples - 1);
  std::vector<std::byte> image(data.spec().input.bytes());
  std::int32_t label = 0;
  data.load_copy(0, 2, 1, image.data(), reinterpret_cast<std::byte*>(&label));
  EXPECT_EQ(int(image[0]), 3);
  EXPECT_EQ(label, 1);
  EXPECT_EQ(data.label(2), 1);
}

}  // namespace
}  // namespace lockstep::data
