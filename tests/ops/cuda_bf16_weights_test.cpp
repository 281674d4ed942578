// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/bf16_weight_cases.h"
#include "tests/ops/cuda_fixture.h"

namespace lockstep::test {
namespace {

class CudaBf16Weights : public CudaTest {};

TEST_F(CudaBf16Weights, PassThroughMessages) { expect_weight_messages(backend()); }

TEST_F(CudaBf16Weights, KernelsHaveTheSameBitsFromRoundedOnes) {
  expect_bits_of_rounded_weights(backend(), true);
}

}  // namespace
}  // namespace lockstep::test
