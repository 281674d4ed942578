// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/stranger_watch.h"

#include <cstring>
#include <gtest/gtest.h>

#include "core/base/text/fixed_text.h"
#include "parallel/comm/self_communicator.h"

namespace lockstep {
namespace {

/// Rank 3 of 12, which has others below it.
class InnerRank final : public SelfCommunicator {
 public:
  int rank() const override { return 3; }
  int size() const override { return 12; }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    for (int r = 0; r < size(); ++r)
      std::memcpy(static_cast<std::byte*>(recv) + std::size_t(r) * bytes, send, bytes);
  }
};

watch::Strangers strangers_of(int rank, const char* lines) {
  watch::Strangers strangers;
  strangers.rank = rank;
  set_text(strangers.lines, lines);
  return strangers;
}

TEST(StrangerWatch, ARankBetweenOthersKeepsTheLastReportOfEach) {
  InnerRank rank;
  const watch::Peers peers(rank, false, 2);
  StrangerWatch strangers(peers, {}, 1);
  EXPECT_FALSE(strangers.keeps_some());
  strangers.hear(strangers_of(9, "one"));
  strangers.hear(strangers_of(4, "another"));
  strangers.hear(strangers_of(9, "two"));
  for (const auto& [of_rank, lines] : {std::pair(9, "two"), std::pair(4, "another")}) {
    ASSERT_TRUE(strangers.keeps_some());
    const watch::Strangers first = strangers.take();
    EXPECT_EQ(first.rank, of_rank);
    EXPECT_STREQ(first.lines, lines);
  }
  EXPECT_FALSE(strangers.keeps_some());
}

TEST(StrangerWatch, RankZeroHasNoOneToTell) {
  SelfCommunicator rank;
  const watch::Peers peers(rank, false, 2);
  StrangerWatch strangers(peers, {}, 1);
  strangers.hear(strangers_of(4, "rank 4's host: a process at port 1\n"));
  EXPECT_FALSE(strangers.keeps_some());
  EXPECT_NE(strangers.all().find("rank 4's host"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
