// SPDX-License-Identifier: Apache-2.0
// Ranks whose needs or rooms differ: all of them stop, with one message, or none.
#include <chrono>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "kernels/cpu/cpu_backend.h"
#include "launcher/advice/out_of_memory.h"
#include "lockstep/data/sources.h"
#include "lockstep/zoo.h"
#include "tests/support/metered_backend.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kPlenty = std::uint64_t{64} << 30;

/// A rank with a device of its own that has `free` bytes.
class Rank final : public RankContext {
 public:
  explicit Rank(std::uint64_t free) {
    backend_.pretended = {.free = free, .total = kPlenty, .pool = fmt::format("gpu {}", rank())};
  }
  Backend& backend() override { return backend_; }
  Communicator& communicator() override { return lockstep::testing::mpi_world(); }

 private:
  lockstep::testing::MeteredBackend backend_{make_cpu_backend()};
};

int own_rank() { return lockstep::testing::mpi_world().rank(); }
int ranks() { return lockstep::testing::mpi_world().size(); }
bool is_last() { return own_rank() == ranks() - 1; }

PlanRequest request_with(int workers) {
  return {.model = nn::make_model({.name = "mlp", .outputs = 10}),
          .loss = [](Builder& nn,
                     Value logits,
                     Value labels) { return nn.softmax_cross_entropy(logits, labels, 0.0f, {}); },
          .data = data::glyphs(256, 16),
          .options = {.global_batch = 64, .micro_batch = 8, .steps = 1, .workers = workers},
          .ranks = ranks()};
}

MemoryTable table_of(const PlanRequest& request) {
  return plan_memory(*make_cpu_backend(), request).table;
}

/// Empty: there is room. Equal on all ranks.
std::string message(std::uint64_t free, const PlanRequest& request, int expected_rank = -1) {
  Rank rank(free);
  const TrainingMemory memory(rank, request, "mlp");
  std::string text;
  try {
    memory.require_headroom();
  } catch (const ExplainedOutOfMemory& error) {
    text = error.what();
    EXPECT_EQ(error.rank, expected_rank);
  }
  char own[512] = {};
  text.copy(own, sizeof own - 1);
  std::vector<char> all(sizeof own * std::size_t(ranks()));
  lockstep::testing::mpi_world().all_gather(own, all.data(), sizeof own);
  for (int r = 0; r < ranks(); ++r) EXPECT_STREQ(&all[std::size_t(r) * sizeof own], own);
  return text;
}

TEST(RequireRoom, ComparesEachRanksOwnNeed) {
  const PlanRequest request = request_with(is_last() ? 3 : 0);
  const MemoryTable table = table_of(request_with(3));
  const std::uint64_t less = table_of(request_with(0)).planned();
  ASSERT_LT(less, table.planned());
  const std::uint64_t needed = table.planned();
  EXPECT_EQ(message(is_last() ? needed : kPlenty, request), "");
  EXPECT_THAT(message(is_last() ? needed - 1 : kPlenty, request, ranks() - 1),
              HasSubstr(fmt::format("({} bytes) of a rank, 1 B more than the headroom", needed)));
}

/// Which need not be the rank that has least.
TEST(RequireRoom, NamesTheRankThatLacksMost) {
  const PlanRequest own = request_with(own_rank() == 0 ? 3 : 0);
  const std::uint64_t most = table_of(request_with(3)).planned();
  const std::uint64_t others = table_of(request_with(0)).planned();
  ASSERT_LT(others + 1, most);
  EXPECT_EQ(message(own_rank() == 0 ? most : others, own), "");
  EXPECT_THAT(message(own_rank() == 0 ? others + 1 : others, own, 0), HasSubstr("on rank 0 of"));
}

TEST(RequireRoom, APlanThatExceedsTheLimitOnOneRankStopsAll) {
  PlanRequest request = request_with(0);
  request.options.memory_limit = is_last() ? 1000 : kPlenty;
  Rank rank(kPlenty);
  const TrainingMemory memory(rank, request, "mlp");
  EXPECT_THROW(memory.require_headroom(), OutOfMemory);
}

/// Others may wait for the rank that looks for advice.
TEST(RequireRoom, AdviceDoesNotHoldOthersUp) {
  Rank rank(kPlenty);
  PlanRequest request = request_with(0);
  int compiled = 0;
  request.model = [&compiled, model = request.model](Builder& nn, Value input) {
    ++compiled;
    if (ranks() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return model(nn, input);
  };
  const TrainingMemory memory(rank, request, "slow");
  try {
    try {
      throw OutOfMemory("123 bytes of memory wanted", "the plain hint");
    } catch (const OutOfMemory&) {
      memory.rethrow_explained();
    }
    ADD_FAILURE() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(), "123 bytes of memory wanted");
    if (ranks() == 1) {
      EXPECT_GT(compiled, 4) << "nobody waits";
      return;
    }
    EXPECT_EQ(error.hint(), "the plain hint");
    EXPECT_LE(compiled, 4) << "a second at most";
  }
}

}  // namespace
}  // namespace lockstep
