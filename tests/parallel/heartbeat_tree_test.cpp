// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_tree.h"

#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "core/base/text/fixed_text.h"
#include "parallel/watchdog/connect_outcome.h"

namespace lockstep::watch {
namespace {

using ::testing::ElementsAre;

std::vector<int> hosts_of(int ranks, int ranks_per_host) {
  std::vector<int> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(r / ranks_per_host);
  return hosts;
}

/// Of a tree in which every member has `fan_out` children, level by level: connections from the
/// root to the last of `members`.
int levels(int members, int fan_out) {
  int depth = 0;
  for (int i = members - 1; i > 0; i = (i - 1) / fan_out) ++depth;
  return depth;
}

void expect_tree(const std::vector<int>& hosts, int fan_out) {
  const HeartbeatTree tree(hosts, fan_out);
  const int ranks = int(hosts.size());
  SCOPED_TRACE(fmt::format("{} ranks, fan-out {}", ranks, fan_out));
  std::vector<int> seen(hosts.size(), 0);
  std::set<int> known;
  int children = 0, largest_host = 0;
  for (int r = 0; r < ranks; ++r) {
    const bool first_of_host = known.insert(hosts[std::size_t(r)]).second;
    EXPECT_LE(tree.children(r).size(), std::size_t(2 * fan_out));
    for (const int child : tree.children(r)) {
      EXPECT_EQ(tree.parent(child), r);
      EXPECT_GT(child, r) << "so that there is no circle";
      ++seen[std::size_t(child)];
      ++children;
    }
    if (r > 0 && ranks > fan_out + 1 && !first_of_host) {
      EXPECT_EQ(hosts[std::size_t(tree.parent(r))], hosts[std::size_t(r)])
          << "one connection of a host leaves it";
    }
    EXPECT_EQ(std::size_t(tree.subtree_size(r)), tree.ranks_below(r).size() + 1);
    largest_host = std::max(largest_host, int(std::ranges::count(hosts, hosts[std::size_t(r)])));
  }
  EXPECT_EQ(tree.parent(0), -1);
  EXPECT_EQ(children, ranks - 1);
  for (int r = 1; r < ranks; ++r) EXPECT_EQ(seen[std::size_t(r)], 1) << r;
  EXPECT_EQ(tree.subtree_size(0), ranks) << "rank 0 reaches all";
  EXPECT_LE(tree.depth(), levels(int(known.size()), fan_out) + levels(largest_host, fan_out));
}

TEST(HeartbeatTree, ReachesAllWithBoundedDegreeAndLogarithmicDepth) {
  for (const int fan_out : {2, 5, HeartbeatTree::kFanOut})
    for (const int ranks : {2, 3, 4, 33, 34, 100, 513, 1000})
      for (const int per_host : {1, 2, 8, 64, ranks})
        expect_tree(hosts_of(ranks, per_host), fan_out);
}

TEST(HeartbeatTree, HostsMayHaveAnyRanks) {
  std::mt19937 random(3);
  std::vector<int> hosts;
  for (int r = 0; r < 700; ++r) hosts.push_back(int(random() % 90));
  for (const int fan_out : {2, 7, 32}) expect_tree(hosts, fan_out);
}

TEST(HeartbeatTree, TenThousandRanks) {
  const HeartbeatTree tree(hosts_of(10000, 8));
  EXPECT_EQ(tree.depth(), 4) << "three levels of 1,250 hosts, one inside";
  EXPECT_EQ(tree.children(0).size(), 32u + 7);
  std::size_t most = 0;
  for (int r = 0; r < tree.ranks(); ++r) most = std::max(most, tree.children(r).size());
  EXPECT_EQ(most, 32u + 7);
  const HeartbeatTree alone(hosts_of(10000, 10000));
  EXPECT_EQ(alone.depth(), 3);
  EXPECT_EQ(alone.children(0).size(), 32u);
}

TEST(HeartbeatTree, FewRanksAreAStar) {
  for (const int ranks : {2, 8, 33})
    for (const int per_host : {1, 8}) {
      const HeartbeatTree tree(hosts_of(ranks, per_host));
      for (int r = 1; r < ranks; ++r) EXPECT_EQ(tree.parent(r), 0);
      EXPECT_EQ(tree.depth(), 1);
    }
  EXPECT_EQ(HeartbeatTree(hosts_of(34, 8)).depth(), 2);
}

TEST(HeartbeatTree, ShapeOfAFew) {
  // Hosts of three: 0 1 2 | 3 4 5 | 6 7 8 | 9 10 11.
  const HeartbeatTree tree(hosts_of(12, 3), 2);
  EXPECT_THAT(tree.children(0), ElementsAre(1, 2, 3, 6));
  EXPECT_THAT(tree.children(3), ElementsAre(4, 5, 9));
  EXPECT_THAT(tree.children(9), ElementsAre(10, 11));
  EXPECT_THAT(tree.ranks_below(3), ElementsAre(4, 5, 9, 10, 11));
  EXPECT_EQ(tree.depth(11), 3);
  EXPECT_TRUE(tree.children(6).size() == 2 && !tree.has_children(7));
}

TEST(HeartbeatTree, SaysWhichRanksCannotConnect) {
  const HeartbeatTree tree(hosts_of(12, 3), 2);
  std::vector<ConnectOutcome> outcomes(12);
  set_text(outcomes[4].problem, "port 1: refused");
  EXPECT_EQ(format_blindness(outcomes, tree),
            "rank 4 cannot reach rank 3 over TCP (port 1: refused)");
  set_text(outcomes[7].problem, "another");
  set_text(outcomes[9].problem, "port 1: refused");
  EXPECT_EQ(format_blindness(outcomes, tree),
            "ranks 4, 9 cannot reach rank 3 over TCP (port 1: refused)")
      << "of one parent";
  outcomes[6].listens = 0;
  set_text(outcomes[6].problem, "it cannot listen");
  EXPECT_EQ(format_blindness(outcomes, tree), "rank 6: it cannot listen");
  std::vector<ConnectOutcome> many(20);
  for (std::size_t r = 1; r < many.size(); ++r) set_text(many[r].problem, "no");
  EXPECT_EQ(format_blindness(many, HeartbeatTree(hosts_of(20, 4))),
            "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 more cannot reach rank 0 over TCP (no)");
}

}  // namespace
}  // namespace lockstep::watch
