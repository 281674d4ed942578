// SPDX-License-Identifier: Apache-2.0
// Backend::hash on CUDA gives the numbers of the formula, and so the CPU's.
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/hash_cases.h"

namespace lockstep::test {
namespace {

class CudaHash : public CudaTest {};

TEST_F(CudaHash, FollowsTheFormula) { expect_hashes_of_the_formula(backend()); }

TEST_F(CudaHash, TakesMoreRangesThanOneLaunch) { expect_hashes_of_many_ranges(backend()); }

TEST_F(CudaHash, NothingHasAHashOfZero) {
  EXPECT_EQ(hashes(backend(), {1.0f}, {{.offset = 0, .elems = 0}}), std::vector<std::uint64_t>{0});
  EXPECT_TRUE(hashes(backend(), {1.0f}, {}).empty());
}

}  // namespace
}  // namespace lockstep::test
