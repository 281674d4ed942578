// SPDX-License-Identifier: Apache-2.0
// Which rank orthogonalizes which matrix.
#include "core/plan/matrix_deal.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <numeric>

#include "core/plan/hidden_matrices.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using ::testing::Each;

/// 12 matrices of 3 shapes.
Graph gpt() { return trace_gpt(true, 3); }

TEST(MatrixDeal, OneMemberHasAll) {
  const Graph graph = gpt();
  const std::vector<int> member_of = deal_matrices(graph, 1);
  EXPECT_EQ(member_of.size(), hidden_matrices(graph).size());
  EXPECT_THAT(member_of, Each(0));
}

TEST(MatrixDeal, NoMemberHasMuchMoreThanTheMean) {
  const Graph graph = gpt();
  const std::vector<double> alone = dealt_work(graph, int(hidden_matrices(graph).size()));
  const double largest = std::ranges::max(alone);
  for (int members = 1; members <= 20; ++members) {
    const std::vector<double> work = dealt_work(graph, members);
    // Whoever gets the last matrix of its load had no more than the others' mean before.
    EXPECT_LE(std::ranges::max(work), 1.0 / members + (1 - 1.0 / members) * largest + 1e-12)
        << members;
    EXPECT_NEAR(std::accumulate(work.begin(), work.end(), 0.0), 1.0, 1e-12);
  }
}

TEST(MatrixDeal, MembersBeyondTheMatricesHaveNone) {
  const Graph graph = gpt();
  const int matrices = int(hidden_matrices(graph).size());
  const std::vector<double> work = dealt_work(graph, matrices + 3);
  EXPECT_EQ(std::ranges::count(work, 0.0), 3);
}

}  // namespace
}  // namespace lockstep
