// SPDX-License-Identifier: Apache-2.0
#include "core/ops/dropout.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

OpCase dropout_case(const Shape& shape, float rate, const RunState& state) {
  // The factor 1 / (1 - rate) and the product are rounded once each.
  return {fmt::format("{} at sample {}", shape.to_string(), state.first_sample),
          std::make_shared<ops::Dropout>(rate),
          {random_f32(shape, 1)},
          {{.c = 3}},
          {},
          state,
          "layer3.dropout"};
}

std::vector<OpCase> dropout_cases() {
  std::vector<OpCase> cases;
  const RunState start{.seed = 1, .step = 0, .first_sample = 0};
  const RunState later{.seed = 42, .step = 0x500000007ull, .first_sample = 0xfffffffeull};
  for (const RunState& state : {start, later})
    for (std::int64_t size : {1, 3, 10, 15, 16, 17, 31, 32, 33, 64, 95, 1025})
      for (std::int64_t samples : {0, 1, 5})
        cases.push_back(dropout_case({samples, size}, 0.3f, state));
  cases.push_back(dropout_case({3, 7, 5, 6}, 0.5f, later));
  cases.push_back(dropout_case({3, 33}, 0.0f, later));
  cases.push_back(dropout_case({3, 33}, 0.9999999f, later));
  for (const Shape& shape :
       {Shape{0, 4}, Shape{3, 0}, Shape{64, 3}, Shape{20, 5, 33}, Shape{7, 2, 2, 8}}) {
    cases.push_back(dropout_case(shape, 0.3f, later));
    cases.back().op = std::make_shared<ops::Dropout>(0.3f, true);
  }
  return cases;
}

LOCKSTEP_OP_TEST(Dropout, dropout, dropout_reference, dropout_cases)

std::unique_ptr<Kernel> make_dropout(const KernelSpec& spec) {
  return cpu::make_dropout_kernel(op_cast<ops::Dropout>(spec.op), spec);
}

TEST(Dropout, DropsTheRequestedShare) {
  OpCase test_case = dropout_case({64, 1024}, 0.25f, {.seed = 3, .step = 5});
  test_case.inputs[0] = random_f32({64, 1024}, 1, 1, 2);
  int dropped = 0;
  for (double v : run_kernel(test_case, make_dropout)[0].to_double()) dropped += v == 0;
  const double n = 64 * 1024;
  // Binomial; five standard deviations.
  EXPECT_NEAR(dropped, 0.25 * n, 5 * std::sqrt(n * 0.25 * 0.75));
}

TEST(Dropout, DependsOnTheSampleNotOnTheMicroBatch) {
  for_each_isa([] {
    OpCase whole = dropout_case({6, 33}, 0.5f, {.seed = 3, .step = 5, .first_sample = 10});
    const HostTensor both = run_kernel(whole, make_dropout)[0];
    OpCase part = dropout_case({2, 33}, 0.5f, {.seed = 3, .step = 5, .first_sample = 14});
    std::memcpy(part.inputs[0].bytes.data(), whole.inputs[0].as<float>() + 4 * 33, 2 * 33 * 4);
    const HostTensor second = run_kernel(part, make_dropout)[0];
    EXPECT_EQ(0, std::memcmp(second.as<float>(), both.as<float>() + 4 * 33, 2 * 33 * 4));
  });
}

}  // namespace
}  // namespace lockstep::test
