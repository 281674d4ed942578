// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/watched_communicator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "lockstep/error.h"
#include "parallel/comm/deadlock_detector.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Communicator> watched(Position& position, bool checked) {
  Communicator& world = testing::mpi_world();
  return make_watched_communicator(world.split(0, world.rank()), position, checked);
}

/// Every collective once; false where the results are wrong.
bool all_collectives_work(Communicator& comm) {
  const int rank = comm.rank(), ranks = comm.size();
  const auto count = std::size_t(ranks);
  comm.barrier();
  int word = rank;
  comm.broadcast(&word, sizeof word, 0);
  std::vector<int> all(count), expected(count);
  std::iota(expected.begin(), expected.end(), 0);
  comm.all_gather(&rank, all.data(), sizeof rank);
  bool good = word == 0 && all == expected;
  std::ranges::fill(all, -1);
  comm.gather(&rank, rank + 1 == ranks ? all.data() : nullptr, sizeof rank, ranks - 1);
  good &= rank + 1 == ranks ? all == expected : all == std::vector<int>(count, -1);
  comm.all_gather_v(&rank, all.data(), std::vector<std::size_t>(count, sizeof rank));
  good &= all == expected;
  std::vector<std::uint64_t> most{std::uint64_t(rank)};
  comm.all_reduce_max(most);
  good &= most[0] + 1 == std::uint64_t(ranks);
  std::vector<float> sum{1}, send(count, float(rank)), received(count), gathered(count);
  std::vector<CommBlock> blocks;
  for (int r = 0; r < ranks; ++r) blocks.push_back({r, 1});
  gathered[std::size_t(rank)] = float(rank);
  const auto to_all = comm.start_all_to_all(send.data(), blocks, received.data(), blocks);
  const auto gather = comm.start_all_gather(gathered.data(), blocks);
  const auto reduce = comm.start_all_reduce(sum.data(), 1);
  while (!gather->test()) {
  }
  reduce->wait();
  to_all->wait();
  for (int r = 0; r < ranks; ++r)
    good &= received[std::size_t(r)] == float(r) && gathered[std::size_t(r)] == float(r);
  return good && sum[0] == float(ranks);
}

TEST(WatchedCommunicator, DoesWhatTheOneInsideDoes) {
  for (const bool checked : {false, true}) {
    Position position;
    const auto comm = watched(position, checked);
    EXPECT_TRUE(all_collectives_work(*comm));
    const auto part = comm->split(comm->rank() % 2, comm->rank());
    EXPECT_TRUE(all_collectives_work(*part));
    EXPECT_EQ(position.read().collective.name, nullptr);
    // Blocking ones and waits, of `comm` and of its part, and the split.
    EXPECT_EQ(position.read().collectives, 17u);
  }
}

// As gradient exchanges do: two communicators, whose collectives ranks start in different orders.
TEST(WatchedCommunicator, CommunicatorsAreCheckedEachByItself) {
  Position position;
  const auto a = watched(position, true), b = watched(position, true);
  std::vector<float> x{1}, y{1}, z{1};
  CommRequestPtr requests[3];
  if (a->rank() == 0) {
    requests[0] = a->start_all_reduce(x.data(), 1);
    requests[1] = a->start_all_reduce(y.data(), 1);
    requests[2] = b->start_all_reduce(z.data(), 1);
  } else {
    requests[2] = b->start_all_reduce(z.data(), 1);
    requests[0] = a->start_all_reduce(x.data(), 1);
    requests[1] = a->start_all_reduce(y.data(), 1);
  }
  for (bool done = false; !done;) {
    done = true;
    for (const CommRequestPtr& request : requests) done &= request->test();
  }
  for (const auto* value : {&x, &y, &z}) EXPECT_EQ((*value)[0], float(a->size()));
}

/// The message of what `call` throws.
template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(CheckedMode, AnotherOperationIsNamedOnEveryRank) {
  Position position;
  const auto comm = watched(position, true);
  comm->barrier();
  std::vector<std::int64_t> own(8, 7), all(8 * std::size_t(comm->size()), 5);
  const auto before = all;
  const std::string what = error_of([&] {
    if (comm->rank() == 0)
      comm->all_gather(own.data(), all.data(), 64);
    else
      comm->broadcast(own.data(), 8, 0);
  });
  EXPECT_THAT(what, HasSubstr("rank 0 called all-gather of 64 bytes as its 2nd collective"));
  EXPECT_THAT(what, HasSubstr("rank 1 broadcast of 8 bytes from 0"));
  EXPECT_EQ(all, before) << "untouched";
  EXPECT_EQ(own, std::vector<std::int64_t>(8, 7));
}

TEST(CheckedMode, ACollectiveThatARankLeftOutShowsInTheNextStep) {
  Position position;
  const auto comm = watched(position, true);
  std::vector<std::int64_t> all(std::size_t(comm->size()));
  const std::string what = error_of([&] {
    for (const std::int64_t step : {1, 2, 3}) {
      position.set_step(step);
      if (step != 2 || comm->rank() != 1) comm->all_gather(&step, all.data(), sizeof step);
    }
  });
  EXPECT_THAT(what, HasSubstr("all-gather of 8 bytes in step 2 as its 2nd collective"));
  EXPECT_THAT(what, HasSubstr("rank 1 all-gather of 8 bytes in step 3"));
}

TEST(CheckedMode, AnotherSizeIsNamed) {
  Position position;
  const auto comm = watched(position, true);
  std::vector<float> data(16, 2);
  const std::string what = error_of([&] {
    const auto request = comm->start_all_reduce(data.data(), comm->rank() == 0 ? 16 : 8);
    request->wait();
  });
  EXPECT_THAT(what, HasSubstr("all-reduce of 64 bytes"));
  EXPECT_THAT(what, HasSubstr("all-reduce of 32 bytes"));
  EXPECT_EQ(data, std::vector<float>(16, 2));
}

TEST(CheckedMode, BlocksThatDoNotMeetAreNamed) {
  Position position;
  const auto comm = watched(position, true);
  const auto ranks = std::size_t(comm->size());
  std::vector<float> send(4 * ranks, 1), received(4 * ranks, 0);
  std::vector<CommBlock> to, from;
  for (int r = 0; r < comm->size(); ++r) {
    to.push_back({4 * r, comm->rank() == 0 && r == 1 ? 2 : 4});
    from.push_back({4 * r, 4});
  }
  const std::string what = error_of([&] {
    const auto request = comm->start_all_to_all(send.data(), to, received.data(), from);
    while (!request->test()) {
    }
  });
  EXPECT_THAT(what, HasSubstr("rank 0 sends 2 elements to rank 1, which expects 4"));
  EXPECT_EQ(received, std::vector<float>(4 * ranks, 0));
}

/// The rank that the error of `call` blames.
template <typename Call>
int faulting_rank_of(Call call) {
  try {
    call();
  } catch (const MismatchError& error) {
    EXPECT_EQ(error.rank < 0, error.host.empty());
    return error.rank;
  }
  return -2;
}

TEST(CheckedMode, WhereMostRanksAgreeTheOtherOneIsToBlame) {
  for (int odd = 0; odd < testing::mpi_world().size(); ++odd) {
    Position position;
    const auto comm = watched(position, true);
    std::vector<std::int64_t> own(8, 7), all(8 * std::size_t(comm->size()));
    const int blamed = faulting_rank_of(
        [&] { comm->all_gather(own.data(), all.data(), comm->rank() == odd ? 8 : 64); });
    EXPECT_EQ(blamed, comm->size() > 2 ? odd : -1) << "of two ranks either may be wrong";
  }
}

TEST(CheckedMode, BlocksOfOneRankThatFitNobodysAreItsFault) {
  const int odd = testing::mpi_world().size() - 1;
  Position position;
  const auto comm = watched(position, true);
  std::vector<float> send(4 * std::size_t(comm->size())), received(send.size());
  std::vector<CommBlock> blocks;
  for (int r = 0; r < comm->size(); ++r) blocks.push_back({4 * r, comm->rank() == odd ? 2 : 4});
  blocks[std::size_t(comm->rank())].elems = 4;
  const int blamed = faulting_rank_of(
      [&] { comm->start_all_to_all(send.data(), blocks, received.data(), blocks)->wait(); });
  EXPECT_EQ(blamed, comm->size() > 2 ? odd : -1);
}

// As a rank does that skips the exchange of a step, after which an evaluation follows: what
// the others wait for would never come, nor what it waits for itself.
TEST(CheckedMode, ARankThatWaitsInAnotherCommunicatorIsFound) {
  for (int odd = 0; odd < testing::mpi_world().size(); ++odd) {
    Position position;
    const auto comm = watched(position, true);
    const auto exchange = comm->split(0, comm->rank()), evaluation = comm->split(0, comm->rank());
    position.set_step(7);
    std::vector<float> data(16, 2);
    const auto call = [&] {
      if (comm->rank() != odd) exchange->start_all_reduce(data.data(), 16)->wait();
      evaluation->barrier();
    };
    const std::string what = error_of(call);
    // Whatever is called next meets the same error.
    const int blamed = faulting_rank_of(call);
    EXPECT_THAT(what, HasSubstr(fmt::format("rank {} ", odd)));
    EXPECT_THAT(what, HasSubstr("all-reduce of 64 bytes in step 7"));
    EXPECT_THAT(what, HasSubstr("barrier in step 7"));
    EXPECT_EQ(blamed, comm->size() > 2 ? odd : -1);
    EXPECT_EQ(data, std::vector<float>(16, 2));
  }
}

// Rank 0 waits at once for what the others have only started, and wait for later.
TEST(CheckedMode, WhatARankHasStartedBeginsWhileItWaitsElsewhere) {
  Position position;
  const auto comm = watched(position, true);
  const auto part = comm->split(0, comm->rank());
  std::vector<float> data{1};
  const auto request = part->start_all_reduce(data.data(), 1);
  if (comm->rank() == 0) request->wait();
  comm->barrier();
  request->wait();
  EXPECT_EQ(data[0], float(comm->size()));
}

TEST(CheckedMode, WhoeverWaitsForASlowRankIsNotAccused) {
  Position position;
  const auto comm = watched(position, true);
  const auto part = comm->split(0, comm->rank());
  const auto pause = std::chrono::duration<double>(DeadlockDetector::kStillSeconds +
                                                   3 * DeadlockDetector::kRoundSeconds);
  std::vector<float> early{1}, late{1};
  for (int slow = 0; slow < comm->size(); ++slow) {
    // The slow one computes, and looks after what it has started now and then.
    auto request = part->start_all_reduce(early.data(), 1);
    const auto end = std::chrono::steady_clock::now() + pause;
    while (comm->rank() == slow && std::chrono::steady_clock::now() < end) request->test();
    comm->start_all_reduce(late.data(), 1)->wait();
    request->wait();
  }
  const auto ranks = float(comm->size());
  EXPECT_EQ(early[0], std::pow(ranks, ranks));
  EXPECT_EQ(late[0], std::pow(ranks, ranks));
  // The last of them may have posted a round that the slow one knows nothing of: no hang here.
}

}  // namespace
}  // namespace lockstep
