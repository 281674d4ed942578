// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/algorithm_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

/// Candidates whose times are known; those of `unsteady` store other bits in every run.
class Planted final : public CandidateRunner {
 public:
  Planted(std::vector<double> seconds, std::vector<std::size_t> unsteady = {})
      : seconds_(std::move(seconds)), unsteady_(std::move(unsteady)) {}

  std::uint64_t result_hash(std::size_t candidate) override {
    ++runs;
    if (seconds_[candidate] < 0) throw Error("cannot run", "");
    return std::ranges::count(unsteady_, candidate) > 0 ? runs : 7;
  }
  /// Every fifth run takes ten times as long, as beside another program.
  double seconds(std::size_t candidate) override {
    return seconds_[candidate] * (++runs % 5 == 0 ? 10 : 1);
  }

  std::uint64_t runs = 0;

 private:
  std::vector<double> seconds_;
  std::vector<std::size_t> unsteady_;
};

TEST(AlgorithmTrial, TakesTheFastest) {
  Planted planted({3, 2, 1, 2});
  const TrialResult result = try_candidates(4, planted);
  EXPECT_EQ(result.fastest, 2u);
  EXPECT_EQ(result.seconds, 1);
  EXPECT_TRUE(result.nondeterministic.empty());
}

TEST(AlgorithmTrial, KeepsTheLibrarysFavouriteWithinNoise) {
  Planted close({1.0, 0.985});
  EXPECT_EQ(try_candidates(2, close).fastest, 0u);
  Planted faster({1.0, 0.985, 0.9, 0.895});
  EXPECT_EQ(try_candidates(4, faster).fastest, 3u);
}

TEST(AlgorithmTrial, RefusesWhatStoresOtherBitsInASecondRun) {
  Planted planted({3, 2, 1}, {2});
  const TrialResult result = try_candidates(3, planted);
  EXPECT_EQ(result.fastest, 1u);
  EXPECT_THAT(result.nondeterministic, ::testing::ElementsAre(2));
  Planted none({1, 1}, {0, 1});
  EXPECT_FALSE(try_candidates(2, none).fastest);
  EXPECT_FALSE(try_candidates(0, none).fastest);
}

TEST(AlgorithmTrial, PassesOverWhatCannotRun) {
  Planted planted({-1, 2, 1});
  const TrialResult result = try_candidates(3, planted);
  EXPECT_EQ(result.fastest, 2u);
  EXPECT_THAT(result.refused, ::testing::ElementsAre(0));
}

}  // namespace
}  // namespace lockstep::cuda
