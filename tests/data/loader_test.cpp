// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include "core/data/reduced_dataset.h"
#include "core/data/sampler.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

/// Samples that say their own number; may be slow, and may fail.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {
    spec_.input = {{1}, DType::f32};
    spec_.target = {{}, DType::i32};
    spec_.classes = 2;
  }

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    // The later of two neighbours is ready first, so that order must be kept, not found.
    if (delay.count() > 0) std::this_thread::sleep_for(index % 2 == 0 ? delay : delay / 4);
    if (index == broken) throw DataError("numbers: sample 13 is broken");
    const float value = float(epoch * 1000) + float(index);
    const auto label = std::int32_t(index);
    std::memcpy(input, &value, sizeof value);
    std::memcpy(target, &label, sizeof label);
    ++loads;
  }
  std::string describe() const override { return "numbers"; }
  std::uint64_t fingerprint() const override { return 0; }

  std::chrono::microseconds delay{0};
  std::int64_t broken = -1;
  mutable std::atomic<int> loads{0};

 private:
  std::int64_t size_;
  SampleSpec spec_;
};

/// Requests 0, 1, 2, ... samples of one each, `count` of them.
Loader::NextRequest singles(std::int64_t count) {
  return [count, next = std::int64_t{0}](LoadRequest& request) mutable {
    if (next == count) return false;
    request.samples.push_back(next++);
    return true;
  };
}

std::int32_t first_label(const LoadedBatch& batch) {
  std::int32_t label = 0;
  std::memcpy(&label, batch.target, sizeof label);
  return label;
}

/// All bytes of two shuffled, augmented epochs in micro-batches of 16 with a short last one.
std::vector<std::byte> two_epochs(int workers, int slots) {
  constexpr std::int64_t kSize = 100, kMicroBatch = 16;
  const auto dataset = glyphs(kSize, 1).train;
  Sampler sampler(kSize, 3, true);
  std::int64_t position = 0;
  Loader loader(dataset,
                {.workers = workers,
                 .slots = slots,
                 .micro_batch = kMicroBatch,
                 .seed = 5,
                 .augmentation = parse_augmentation("shift,flip")},
                [&](LoadRequest& request) {
                  if (position == 2 * kSize) return false;
                  const std::int64_t first = position % kSize;
                  const std::int64_t count = std::min(kMicroBatch, kSize - first);
                  request.epoch = std::uint64_t(position / kSize);
                  const auto samples = sampler.range(request.epoch, first, count);
                  request.samples.assign(samples.begin(), samples.end());
                  position += count;
                  return true;
                });
  EXPECT_EQ(loader.workers(), workers);
  std::vector<std::byte> bytes;
  for (int i = 0; i < 14; ++i) {
    const LoadedBatch batch = loader.next();
    EXPECT_EQ(batch.samples, i % 7 == 6 ? 4 : 16);
    bytes.insert(bytes.end(), batch.input, batch.input + batch.samples * 784);
    bytes.insert(bytes.end(), batch.target, batch.target + batch.samples * 4);
  }
  EXPECT_THROW(loader.next(), InternalError);
  EXPECT_THROW(loader.next(), InternalError);
  return bytes;
}

TEST(Loader, BytesDoNotDependOnWorkersOrSlots) {
  const std::vector<std::byte> expected = two_epochs(0, 4);
  EXPECT_EQ(expected.size(), 200u * 788);
  EXPECT_EQ(two_epochs(1, 2), expected);
  EXPECT_EQ(two_epochs(1, 4), expected);
  EXPECT_EQ(two_epochs(3, 2), expected);
  EXPECT_EQ(two_epochs(3, 5), expected);
  EXPECT_EQ(two_epochs(3, 64), expected);
}

// What a sample looks like must not depend on the rank, worker or micro-batch that it falls to.
TEST(Loader, AugmentationIsKeyedBySampleNotByPosition) {
  const auto dataset = glyphs(100, 1).train;
  const LoaderOptions options{.workers = 0,
                              .micro_batch = 4,
                              .seed = 5,
                              .augmentation = parse_augmentation("shift:3,flip")};
  const auto load = [&](std::vector<std::int64_t> samples) {
    Loader loader(dataset, options, [&](LoadRequest& request) {
      request.samples = samples;
      return true;
    });
    const LoadedBatch batch = loader.next();
    return std::vector<std::byte>(batch.input, batch.input + batch.samples * 784);
  };
  const auto together = load({8, 3, 42, 7}), alone = load({42}), elsewhere = load({42, 42});
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + 2 * 784));
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), elsewhere.begin() + 784));
}

TEST(Loader, KeepsTheOrderWhenWorkersFinishOutOfOrder) {
  const auto numbers = std::make_shared<Numbers>(60);
  numbers->delay = std::chrono::microseconds(400);
  Loader loader(numbers, {.workers = 3, .slots = 5}, singles(60));
  for (std::int32_t i = 0; i < 60; ++i) EXPECT_EQ(first_label(loader.next()), i);
}

TEST(Loader, HoldsABatchUntilTheNextCall) {
  const auto numbers = std::make_shared<Numbers>(40);
  Loader loader(numbers, {.workers = 2, .slots = 2}, singles(40));
  for (std::int32_t i = 0; i < 40; ++i) {
    const LoadedBatch batch = loader.next();
    if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(first_label(batch), i);
  }
}

TEST(Loader, ErrorsComeInOrderAndTheRestGoesOn) {
  for (const int workers : {0, 1, 3}) {
    const auto numbers = std::make_shared<Numbers>(20);
    numbers->broken = 13;
    Loader loader(numbers, {.workers = workers}, singles(20));
    for (std::int32_t i = 0; i < 20; ++i) {
      if (i == 13)
        EXPECT_THAT(error_of<DataError>([&] { loader.next(); }), HasSubstr("sample 13 is broken"));
      else
        EXPECT_EQ(first_label(loader.next()), i);
    }
  }
}

TEST(Loader, ErrorsOfTheCallbackComeInOrderAndEndIt) {
  for (const int workers : {0, 1, 3}) {
    int calls = 0;
    Loader loader(std::make_shared<Numbers>(20), {.workers = workers}, [&](LoadRequest& request) {
      if (calls == 3) throw ConfigError("no such schedule");
      request.samples.push_back(calls++);
      return true;
    });
    for (std::int32_t i = 0; i < 3; ++i) EXPECT_EQ(first_label(loader.next()), i);
    EXPECT_THAT(error_of<ConfigError>([&] { loader.next(); }), HasSubstr("no such schedule"));
    EXPECT_THROW(loader.next(), InternalError);
  }
}

TEST(Loader, RefusesBrokenRequests) {
  for (const int workers : {0, 1}) {
    for (const std::vector<std::int64_t>& samples :
         {std::vector<std::int64_t>{}, {20}, {-1}, {1, 2, 3}}) {
      Loader loader(std::make_shared<Numbers>(20),
                    {.workers = workers, .micro_batch = 2},
                    [&](LoadRequest& request) {
                      request.samples = samples;
                      return true;
                    });
      EXPECT_THROW(loader.next(), InternalError);
    }
  }
}

TEST(Loader, EndsPromptlyInMidFlight) {
  using Clock = std::chrono::steady_clock;
  for (const int workers : {1, 3}) {
    for (const int taken : {0, 1, 5}) {
      const auto numbers = std::make_shared<Numbers>(1000000);
      numbers->delay = std::chrono::microseconds(taken == 0 ? 20000 : 200);
      auto loader = std::make_unique<Loader>(
          numbers, LoaderOptions{.workers = workers, .slots = 4}, singles(1000000));
      for (int i = 0; i < taken; ++i) loader->next();
      const auto start = Clock::now();
      loader.reset();
      // One sample of at most 20 ms is awaited; the million requested are not.
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
      EXPECT_LE(numbers->loads.load(), taken + 4 + workers);
    }
  }
}

TEST(Loader, EndsWhileWorkersWaitForAFreeSlotOrHaveFinished) {
  for (const std::int64_t requests : {2, 1000}) {
    const auto numbers = std::make_shared<Numbers>(1000);
    Loader loader(numbers, {.workers = 3, .slots = 4}, singles(requests));
    while (numbers->loads < std::min<std::int64_t>(requests, 4)) std::this_thread::yield();
  }
}

TEST(Loader, RunsAtMostSlotsAhead) {
  const auto numbers = std::make_shared<Numbers>(1000);
  Loader loader(numbers, {.workers = 1, .slots = 3}, singles(1000));
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(numbers->loads.load(), 3);
}

TEST(Loader, AutoLoadsSmallBatchesInlineAndSlowOnesOnAWorker) {
  const auto quick = std::make_shared<Numbers>(10), slow = std::make_shared<Numbers>(10);
  slow->delay = std::chrono::milliseconds(4);
  EXPECT_EQ(Loader(quick, {}, singles(10)).workers(), 0);
  EXPECT_EQ(Loader(slow, {}, singles(10)).workers(), 1);
  slow->broken = 0;
  Loader broken(slow, {}, singles(10));
  EXPECT_THROW(broken.next(), DataError);
}

TEST(Loader, CountsMemory) {
  const auto numbers = std::make_shared<Numbers>(10);
  Loader loader(numbers, {.workers = 0, .micro_batch = 6}, singles(10));
  loader.next();
  // Input, target and index of six samples in one slot.
  EXPECT_EQ(loader.memory_bytes(), 6u * (4 + 4 + 8));
}

TEST(Loader, RefusesOptionsOutOfRange) {
  const auto numbers = std::make_shared<Numbers>(10);
  const auto error = [&](const LoaderOptions& options, std::shared_ptr<const Dataset> dataset) {
    return error_of<ConfigError>([&] { Loader(dataset, options, singles(1)); });
  };
  EXPECT_THAT(error({.workers = -2}, numbers), HasSubstr("auto or 0 to 64, got -2"));
  EXPECT_THAT(error({.workers = 65}, numbers), HasSubstr("got 65"));
  EXPECT_THAT(error({.slots = 1}, numbers), HasSubstr("2 to 1024 slots, got 1"));
  EXPECT_THAT(error({.micro_batch = 0}, numbers), HasSubstr("at least 1 sample, got 0"));
  EXPECT_THAT(error({.augmentation = {.flip = true}}, numbers),
              HasSubstr("flip needs images, u8[H, W, C], but numbers has samples of f32[1]"));
  EXPECT_THAT(error({.augmentation = {.shift = 28}}, glyphs(10, 1).train),
              HasSubstr("shift:28 could move an image of u8[28, 28, 1] out of sight"));
  // Made in code, where parse_augmentation() has not looked at it.
  EXPECT_THAT(
      error({.augmentation = {.flip = true, .alternating_flip = true}}, glyphs(10, 1).train),
      HasSubstr("'flip' and 'alternating-flip' cannot be combined"));
  EXPECT_THAT(error({.augmentation = {.reflect = true}}, glyphs(10, 1).train),
              HasSubstr("'reflect' has neither"));
}

TEST(ReducedDataset, HasTheOthersInOrder) {
  const auto whole = std::make_shared<Numbers>(8);
  const auto values = [](const Dataset& dataset) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      std::int32_t label = 0;
      dataset.load(0,
                   i,
                   reinterpret_cast<std::byte*>(&all.emplace_back()),
                   reinterpret_cast<std::byte*>(&label));
    }
    return all;
  };
  EXPECT_THAT(values(ReducedDataset(whole, {0, 3, 4, 7})), testing::ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(values(ReducedDataset(whole, {0, 1, 2, 4, 5, 6, 7})), testing::ElementsAre(3));
  EXPECT_EQ(ReducedDataset(whole, {2}).size(), 7);
  EXPECT_EQ(ReducedDataset(whole, {2}).original(2), 3);
}

}  // namespace
}  // namespace lockstep::data
