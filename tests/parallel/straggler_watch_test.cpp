// SPDX-License-Identifier: Apache-2.0
// A rank whose data is slow is named while the run continues, and at its end.
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "lockstep/data/sources.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

int rank() { return testing::mpi_world().rank(); }

/// Glyphs that take `delay` a sample.
class SlowData final : public data::Dataset {
 public:
  explicit SlowData(std::chrono::microseconds delay) : delay_(delay) {}
  const data::SampleSpec& spec() const override { return glyphs_->spec(); }
  std::int64_t size() const override { return glyphs_->size(); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    std::this_thread::sleep_for(delay_);
    glyphs_->load(epoch, index, input, target);
  }
  std::string describe() const override { return glyphs_->describe(); }
  std::uint64_t fingerprint() const override { return glyphs_->fingerprint(); }

 private:
  std::shared_ptr<const data::Dataset> glyphs_ = data::glyphs(512, 1).train;
  std::chrono::microseconds delay_;
};

class Listener final : public TrainObserver {
 public:
  void on_slow_rank(const SlowRankRecord& record) override { records.push_back(record); }
  std::vector<SlowRankRecord> records;
};

TEST(StragglerWatch, NamesTheRankThatWaitsForItsData) {
  testing::DeviceContext context(testing::mpi_world());
  // 16 samples of 1 ms and 10 ms on the ranks: steps of 160 ms and more, 8 seconds in all.
  TrainOptions options{.global_batch = 32, .micro_batch = 16, .steps = 50};
  options.optimizer = Sgd{.lr = 0.01f};
  options.workers = 0;
  Trainer trainer(context,
                  nn::make_model({.name = "mlp", .outputs = 10, .hidden = {16}}),
                  softmax_cross_entropy,
                  options);
  Listener listener;
  trainer.add_observer(listener);
  const TrainSummary summary = trainer.fit(
      {std::make_shared<SlowData>(std::chrono::milliseconds(rank() == 1 ? 10 : 1)), {}});
  if (rank() != 0) {
    EXPECT_TRUE(listener.records.empty());
    return;
  }
  ASSERT_EQ(listener.records.size(), 1u);
  EXPECT_EQ(listener.records[0].rank, 1);
  EXPECT_EQ(listener.records[0].phase, "loading");
  EXPECT_FALSE(listener.records[0].host.empty());
  EXPECT_GT(listener.records[0].ms, 160);
  EXPECT_GT(listener.records[0].score, 1.3);
  EXPECT_EQ(summary.slowest_rank, 1);
  EXPECT_EQ(summary.slowest_phase, "loading");
  EXPECT_GT(summary.slowest_score, 1.3);
}

TEST(StragglerWatch, ARankAloneIsNotTheSlowest) {
  TrainOptions options{.global_batch = 32, .micro_batch = 16, .steps = 3};
  const auto alone = testing::mpi_world().split(rank(), 0);
  testing::DeviceContext context(*alone);
  Trainer trainer(
      context, nn::make_model({.name = "mlp", .outputs = 10}), softmax_cross_entropy, options);
  EXPECT_EQ(trainer.fit(data::glyphs(64, 1)).slowest_rank, -1);
}

}  // namespace
}  // namespace lockstep
