// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/binary_cross_entropy.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/losses.h"

namespace lockstep::test {
namespace {

/// Logits in [-range, range], targets 0 and 1.
OpCase labels_case(std::int64_t samples, std::int64_t labels, float range, bool gradient) {
  const float weight = 1.0f / 64;
  HostTensor target = random_f32({samples, labels}, 2);
  for (std::int64_t i = 0; i < samples * labels; ++i)
    target.as<float>()[i] = target.as<float>()[i] > 0 ? 1 : 0;
  // max(x, 0) - x t is exact; the logarithm, below 0.7, has two units in the last place, and the
  // sum of both is rounded once. Sums are fp64. A sigmoid is a quotient of two rounded values.
  return {fmt::format("{} samples of {} labels to +-{}", samples, labels, range),
          std::make_shared<ops::BinaryCrossEntropy>(gradient),
          {random_f32({samples, labels}, 1, -range, range), target, f32_tensor({1}, {weight})},
          {{.c = 3, .scale = double(weight) * double(samples) * (double(range) + 1)},
           {.c = 1, .scale = double(weight) * double(samples)},
           {.c = 6, .scale = double(weight) / double(labels)}}};
}

std::vector<OpCase> binary_cross_entropy_cases() {
  std::vector<OpCase> cases;
  for (std::int64_t labels : {0, 1, 3, 31, 33, 1025})
    for (std::int64_t samples : {0, 1, 5, 33})
      for (bool gradient : {true, false})
        cases.push_back(labels_case(samples, labels, 4, gradient));
  for (float range : {0.01f, 100.0f, 1e4f}) cases.push_back(labels_case(7, 33, range, true));
  return cases;
}

LOCKSTEP_OP_TEST(BinaryCrossEntropy,
                 binary_cross_entropy,
                 binary_cross_entropy_reference,
                 binary_cross_entropy_cases)

std::unique_ptr<Kernel> make_bce(const KernelSpec& spec) {
  return cpu::make_binary_cross_entropy_kernel(op_cast<ops::BinaryCrossEntropy>(spec.op), spec);
}

OpCase with_labels(const std::vector<float>& logits, const std::vector<float>& target) {
  const Shape shape{1, std::int64_t(logits.size())};
  return {"labels",
          std::make_shared<ops::BinaryCrossEntropy>(true),
          {f32_tensor(shape, logits), f32_tensor(shape, target), f32_tensor({1}, {1})}};
}

TEST(BinaryCrossEntropyGradient, FiniteDifferences) {
  OpCase c = labels_case(5, 3, 2, true);
  c.inputs[1].as<float>()[4] = 0.25f;  // a soft label
  const ReferenceArgs args = reference_args(c);
  check_gradient("binary_cross_entropy",
                 binary_cross_entropy_reference,
                 args,
                 0,
                 {1.0},
                 0,
                 binary_cross_entropy_reference(args)[2]);
}

// Relative errors: the loss of a label that is almost certain is small, and not zero.
TEST(BinaryCrossEntropy, ExtremeLogits) {
  for_each_isa([] {
    for (float x : {0.0f, 1e-6f, 1.0f, 17.0f, 20.0f, 80.0f, 100.0f, 1e4f, 3e38f})
      for (float sign : {1.0f, -1.0f})
        for (float target : {0.0f, 1.0f}) {
          const OpCase c = with_labels({sign * x}, {target});
          const auto outputs = run_kernel(c, make_bce);
          const auto exact = binary_cross_entropy_reference(reference_args(c));
          const double loss = exact[0][0], slope = exact[2][0];
          EXPECT_NEAR(outputs[0].to_double()[0], loss, 0x1p-22 * loss + 0x1p-126) << sign * x;
          // 1 - sigmoid(x) is what the difference leaves of numbers near 1.
          EXPECT_NEAR(outputs[2].to_double()[0], slope, 0x1p-23) << sign * x;
        }
  });
}

TEST(BinaryCrossEntropy, CorrectIsTheShareOfLabels) {
  for_each_isa([] {
    // A logit of 0 says "absent".
    const OpCase c = with_labels({0.5f, 0.25f, -2, 1e4f, 0}, {1, 1, 0, 0, 1});
    EXPECT_FLOAT_EQ(run_kernel(c, make_bce)[1].as<float>()[0], 3.0f / 5);
  });
}

TEST(BinaryCrossEntropy, NanStaysNan) {
  for_each_isa([] {
    for (std::size_t labels : {1, 20}) {
      std::vector<float> logits(labels, 1.0f);
      logits[0] = NAN;
      const auto outputs =
          run_kernel(with_labels(logits, std::vector<float>(labels, 1.0f)), make_bce);
      EXPECT_TRUE(std::isnan(outputs[0].to_double()[0]));
      EXPECT_TRUE(std::isnan(outputs[2].to_double()[0]));
    }
  });
}

}  // namespace
}  // namespace lockstep::test
