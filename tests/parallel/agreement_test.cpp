// SPDX-License-Identifier: Apache-2.0
// What ranks agree on, without MPI: each is a thread.
#include "core/exec/agreement.h"

#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text/fixed_text.h"
#include "launcher/gpu_monitor/gpu_watch.h"
#include "lockstep/error.h"
#include "parallel/batch/fingerprint.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/deadlock_detector.h"
#include "parallel/comm/stop_agreement.h"
#include "parallel/monitor/work_message.h"
#include "parallel/replica/algorithm_broadcast.h"
#include "tests/support/null_backend.h"
#include "tests/support/thread_ranks.h"

namespace lockstep {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::on_ranks;

/// What `compute` returns on all ranks, which has to be the same.
template <typename Compute>
auto on_all(int ranks, Compute compute) {
  const auto results = on_ranks(ranks, compute);
  EXPECT_THAT(results, Each(results[0]));
  return results[0];
}

class Agreement : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Agreement, ::testing::Values(1, 2, 5));

TEST_P(Agreement, FindsTheFirstRank) {
  const int ranks = GetParam();
  const auto first = [&](auto holds) {
    return on_all(ranks, [&](Communicator& c) { return first_rank(c, holds(c.rank())); });
  };
  EXPECT_EQ(first([](int) { return false; }), -1);
  EXPECT_EQ(first([](int) { return true; }), 0);
  EXPECT_EQ(first([&](int rank) { return rank == ranks - 1; }), ranks - 1);
  EXPECT_EQ(first([&](int rank) { return rank >= ranks / 2; }), ranks / 2);
}

TEST_P(Agreement, KnowsAllAndAny) {
  const int ranks = GetParam();
  const auto last = [&](Communicator& c) { return c.rank() == ranks - 1; };
  EXPECT_TRUE(on_all(ranks, [](Communicator& c) { return int(all_ranks(c, true)); }));
  EXPECT_FALSE(on_all(ranks, [](Communicator& c) { return int(any_rank(c, false)); }));
  EXPECT_TRUE(on_all(ranks, [&](Communicator& c) { return int(any_rank(c, last(c))); }));
  EXPECT_FALSE(on_all(ranks, [&](Communicator& c) { return int(all_ranks(c, !last(c))); }));
}

TEST_P(Agreement, ComparesValues) {
  const int ranks = GetParam();
  const auto equal = [&](auto value) {
    return on_all(ranks, [&](Communicator& c) {
      return int(all_ranks_equal(c, {7, value(c.rank()), ~std::uint64_t{0}}));
    });
  };
  EXPECT_TRUE(equal([](int) { return std::uint64_t{0}; }));
  EXPECT_EQ(equal([&](int rank) { return std::uint64_t(rank == ranks - 1 ? 1 : 0); }), ranks == 1);
}

TEST_P(Agreement, OrdersNumbers) {
  const int ranks = GetParam();
  const auto most = [&](auto value) {
    return on_all(ranks, [&](Communicator& c) { return largest(c, double(value(c.rank()))); });
  };
  EXPECT_EQ(most([](int rank) { return -1.5 - rank; }), -1.5);
  EXPECT_EQ(most([&](int rank) { return rank - 0.5; }), ranks - 1.5);
  EXPECT_EQ(most([](int rank) { return rank == 0 ? 1e-300 : -HUGE_VAL; }), 1e-300);
  EXPECT_EQ(most([](int) { return -HUGE_VAL; }), -HUGE_VAL);
  EXPECT_EQ(on_all(ranks, [](Communicator& c) { return smallest(c, std::uint64_t(c.rank() + 3)); }),
            3u);
}

TEST(CollectiveStrings, ADistinctTextComesOnceWithItsRanks) {
  on_ranks(6, [](Communicator& c) {
    const std::string own = c.rank() % 2 == 0 ? "" : c.rank() == 3 ? "three" : "odd";
    const auto all = gather_distinct_strings(c, own);
    EXPECT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].text, "");
    EXPECT_THAT(all[0].ranks, ElementsAre(0, 2, 4));
    EXPECT_EQ(all[1].text, "odd");
    EXPECT_THAT(all[1].ranks, ElementsAre(1, 5));
    EXPECT_EQ(all[2].text, "three");
    EXPECT_THAT(all[2].ranks, ElementsAre(3));
    EXPECT_THAT(gather_common_strings(c, own), ElementsAre("", "odd", "", "three", "", "odd"));
    const auto same = gather_distinct_strings(c, "same");
    EXPECT_EQ(same.size(), 1u);
    EXPECT_THAT(same[0].ranks, ElementsAre(0, 1, 2, 3, 4, 5));
    const FirstText first = first_text(c, own);
    EXPECT_EQ(first.rank, 1);
    EXPECT_EQ(first.text, "odd");
    EXPECT_EQ(first_text(c, "").rank, -1);
    return 0;
  });
}

TEST(GpuUse, OfAllRanksIsWhole) {
  const auto use_of = [](int rank) {
    GpuUse use;
    set_text(use.host, "node");
    set_text(use.device, fmt::format("0000:0{}:00.0", rank));
    if (rank == 2) set_text(use.not_watched, "no driver");
    use.part = rank == 1;
    GpuSample sample{.values = {}, .reasons = 1u << rank};
    sample.values[GpuQuantity::busy] = 0.25 * rank;
    use.add(sample);
    use.limits[GpuQuantity::power_w] = 700;
    return use;
  };
  on_ranks(3, [&](Communicator& c) {
    const std::vector<GpuUse> all = gather_gpu_use(c, use_of(c.rank()));
    EXPECT_EQ(all.size(), 3u);
    for (int r = 0; r < 3; ++r) {
      const GpuUse &use = all[std::size_t(r)], expected = use_of(r);
      EXPECT_STREQ(use.host, "node");
      EXPECT_STREQ(use.device, expected.device);
      EXPECT_STREQ(use.not_watched, expected.not_watched);
      EXPECT_EQ(use.part, r == 1);
      EXPECT_EQ(use.samples, 1);
      EXPECT_EQ(use[GpuQuantity::busy].sum, 0.25 * r);
      EXPECT_EQ(use.limits[GpuQuantity::power_w], 700);
      EXPECT_EQ(use.throttled, expected.throttled);
    }
    return 0;
  });
}

/// What `action` throws, with its kind.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const OutOfMemory& error) {
    return std::string("out of memory: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Fingerprints, RanksThatDifferAreNamedAsRanges) {
  const auto error = [](auto of_rank) {
    return on_all(12, [&](Communicator& c) {
      return error_of([&] { compare_fingerprints(c, of_rank(c.rank())); });
    });
  };
  EXPECT_EQ(error([](int) { return Fingerprint{{"lr", "0.1"}}; }), "none");
  EXPECT_EQ(error([](int rank) {
              const bool other = rank >= 3 && rank < 10;
              return Fingerprint{{"lr", other ? "0.2" : "0.1"}, {"seed", "1"}};
            }),
            "ranks differ: lr is 0.1 on ranks 0-2, 10, 11 and 0.2 on ranks 3-9");
  EXPECT_EQ(error([](int rank) {
              Fingerprint own{{"lr", rank == 1 || rank == 3 ? "0.2" : "0.1"}};
              if (rank != 5) own.emplace_back("seed", std::to_string(rank / 6));
              return own;
            }),
            "ranks differ: lr is 0.1 on ranks 0, 2, 4-11 and 0.2 on ranks 1, 3; seed is 0 on "
            "ranks 0-4 and 1 on ranks 6-11 and absent on rank 5");
}

class ThreadContext final : public RankContext {
 public:
  explicit ThreadContext(Communicator& communicator) : communicator_(communicator) {}
  Backend& backend() override { return backend_; }
  Communicator& communicator() override { return communicator_; }

 private:
  Communicator& communicator_;
  testing::NullBackend backend_;
};

TEST(FirstError, OfTheLowestRankReachesAll) {
  const auto error = [](auto compile) {
    return on_all(6, [&](Communicator& c) {
      ThreadContext context(c);
      return error_of(
          [&] { compile_with_broadcast_algorithms(context, [&] { compile(c.rank()); }); });
    });
  };
  EXPECT_EQ(error([](int) {}), "none");
  EXPECT_EQ(error([](int rank) {
              if (rank >= 2) throw ConfigError(fmt::format("of {}", rank), "");
            }),
            "on rank 2: of 2");
  EXPECT_EQ(error([](int rank) {
              if (rank == 5) throw OutOfMemory("too large", "");
            }),
            "out of memory: on rank 5: too large");
  EXPECT_EQ(error([](int) { throw OutOfMemory("too large", ""); }), "out of memory: too large");
}

/// Sums what ranks write: 1 from each, and rank 2's number.
class Counter final : public MessagePart {
 public:
  explicit Counter(int rank) : rank_(rank) {}
  int floats() const override { return 2; }
  void write(float* own) override {
    own[0] += 1;
    if (rank_ == 2) own[1] = 0.1f;
  }
  void read(const float* sums) override {
    ++reads;
    EXPECT_EQ(sums[0], 3.0f);
    EXPECT_EQ(sums[1], 0.1f);
  }
  int reads = 0;

 private:
  int rank_;
};

TEST(StopAgreement, AllStopAtOneCallWhoeverWasAsked) {
  const int stopped = on_all(3, [](Communicator& c) {
    Counter counter(c.rank());
    int calls = 0;
    StopAgreement agreement(c, [&] { return c.rank() == 1 && calls >= 5; }, {&counter});
    while (!agreement.poll(true)) ++calls;
    EXPECT_TRUE(agreement.poll());
    EXPECT_EQ(counter.reads, 6);
    return calls;
  });
  EXPECT_EQ(stopped, 6);
}

TEST(StopAgreement, MessagesBecomeRareAsRanksBecomeMany) {
  const auto seconds = StopAgreement::seconds_between_messages;
  EXPECT_EQ(seconds(2), StopAgreement::kSeconds);
  EXPECT_EQ(seconds(64), StopAgreement::kSeconds);
  EXPECT_DOUBLE_EQ(seconds(1024), 0.32);
  EXPECT_EQ(seconds(10000), StopAgreement::kMaxSeconds);
}

/// One rank's messages are the sums, where all other ranks do nothing.
TEST(WorkMessage, RanksTakeTurnsWhereTheyAreMany) {
  constexpr int kRanks = 2500, kRank = 2400;
  WorkMessage of_rank(kRank, kRanks, {.loading = 1}), judge(0, kRanks);
  ASSERT_EQ(judge.turns(), 3);
  std::vector<float> message(std::size_t(judge.floats()));
  EXPECT_LE(message.size() * sizeof(float), 16384u);
  RankWork done{.loading = 1};
  for (int i = 0; i < 6; ++i) {
    done.loading += 1;
    done.compute += 2;
    done.loaded += 1;
    done.computed += 1;
    std::ranges::fill(message, 0.0f);
    of_rank.write(message.data(), done);
    const auto work = judge.read(message.data());
    if (i % 3 < 2) {
      EXPECT_TRUE(work.empty()) << i;
      continue;
    }
    ASSERT_EQ(work.size(), std::size_t(kRanks));
    EXPECT_EQ(work[kRank].loading, 3) << "since its turn before";
    EXPECT_EQ(work[kRank].compute, 6);
    EXPECT_EQ(work[kRank].loaded, 3);
    EXPECT_EQ(work[kRank - 1].loaded, 0);
  }
}

TEST(WorkMessage, FewRanksAreInEachMessage) {
  WorkMessage last(1023, 1024), judge(0, 1024);
  EXPECT_EQ(judge.turns(), 1);
  std::vector<float> message(std::size_t(judge.floats()));
  last.write(message.data(), {.loading = 0.25, .compute = 0.5, .loaded = 2, .computed = 1});
  const auto work = judge.read(message.data());
  ASSERT_EQ(work.size(), 1024u);
  EXPECT_EQ(work[1023].loading, 0.25);
  EXPECT_EQ(work[1023].computed, 1);
}

/// Who does otherwise, found by the definition: all pairs.
Odd odd_by_pairs(const std::vector<int>& of) {
  Odd odd;
  for (std::size_t r = 0; r < of.size() && !odd.is_minority; ++r) {
    odd.is_minority = 2 * std::ranges::count(of, of[r]) > std::ssize(of);
    if (odd.is_minority) odd.reference = int(r);
  }
  for (std::size_t r = 0; r < of.size() && odd.rank < 0; ++r)
    if (of[r] != of[std::size_t(odd.reference)]) odd.rank = int(r);
  return odd;
}

TEST(FindOdd, IsThatOfAllPairs) {
  for (int code = 0; code < 3 * 3 * 3 * 3 * 3 * 3; ++code)
    for (const int ranks : {1, 2, 3, 5, 6}) {
      std::vector<int> of;
      for (int r = 0, rest = code; r < ranks; ++r, rest /= 3) of.push_back(rest % 3);
      const Odd expected = odd_by_pairs(of), odd = find_odd(ranks, [&](int a, int b) {
                                               return of[std::size_t(a)] == of[std::size_t(b)];
                                             });
      EXPECT_EQ(odd.rank, expected.rank) << code;
      EXPECT_EQ(odd.reference, expected.reference) << code;
      EXPECT_EQ(odd.is_minority, expected.is_minority) << code;
    }
}

}  // namespace
}  // namespace lockstep
