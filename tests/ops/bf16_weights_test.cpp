// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/bf16_weight_cases.h"
#include "tests/ops/each_isa.h"

namespace lockstep::test {
namespace {

TEST(Bf16Weights, PassThroughMessages) {
  for_each_isa([] { expect_weight_messages(*make_cpu_backend()); });
}

TEST(Bf16Weights, KernelsHaveTheSameBitsFromRoundedOnes) {
  for_each_isa([] { expect_bits_of_rounded_weights(*make_cpu_backend(), false); });
}

}  // namespace
}  // namespace lockstep::test
