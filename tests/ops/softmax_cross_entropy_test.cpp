// SPDX-License-Identifier: Apache-2.0
#include "core/ops/softmax_cross_entropy.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/losses.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/losses.h"

namespace lockstep::test {
namespace {

OpCase loss_case(
    std::int64_t samples, std::int64_t classes, float smoothing, bool gradient, float range) {
  const float weight = 1.0f / 120;
  // A sample's loss rounds x - max and log sum, each at most 2 range + log K; the sum is fp64.
  const double one = 2 * double(range) + std::log(double(classes)) + 1;
  return {fmt::format("{} samples, {} classes, |logit| < {}", samples, classes, range),
          std::make_shared<ops::SoftmaxCrossEntropy>(smoothing, gradient),
          {random_f32({samples, classes}, 1, -range, range),
           random_i32({samples}, 2, std::uint32_t(classes)),
           f32_tensor({1}, {weight})},
          {{.c = 4, .n = double(classes), .scale = double(weight) * double(samples) * one},
           {.c = 1},
           // A probability is a quotient of exponentials of rounded differences below 2 range.
           {.c = 4 + 2 * double(range), .n = double(classes), .scale = double(weight)}}};
}

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases;
  for (std::int64_t classes : {1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 17, 31, 33, 100, 1000})
    for (std::int64_t samples : {0, 1, 7, 16, 33, 120}) {
      cases.push_back(loss_case(samples, classes, 0.0f, true, 4));
      cases.push_back(loss_case(samples, classes, 0.1f, true, 30));
      cases.push_back(loss_case(samples, classes, 0.1f, false, 1));
    }
  return cases;
}

LOCKSTEP_OP_TEST(SoftmaxCrossEntropy,
                 softmax_cross_entropy,
                 softmax_cross_entropy_reference,
                 loss_cases)

std::unique_ptr<Kernel> make_loss(const KernelSpec& spec) {
  return cpu::make_softmax_cross_entropy_kernel(op_cast<ops::SoftmaxCrossEntropy>(spec.op), spec);
}

OpCase with_logits(const Shape& shape,
                   const std::vector<float>& logits,
                   const std::vector<std::int32_t>& labels) {
  return {"x",
          std::make_shared<ops::SoftmaxCrossEntropy>(0.0f, true),
          {f32_tensor(shape, logits), i32_tensor({shape[0]}, labels), f32_tensor({1}, {1})}};
}

TEST(SoftmaxCrossEntropy, TheFirstOfEqualLogitsIsTheAnswer) {
  for_each_isa([] {
    for (std::int64_t classes : {3, 12}) {
      std::vector<float> logits(std::size_t(3 * classes), 0.0f);
      for (std::int64_t n = 0; n < 3; ++n) {
        logits[std::size_t(n * classes + 1)] = 5;
        logits[std::size_t(n * classes + 2)] = 5;
      }
      const auto outputs = run_kernel(with_logits({3, classes}, logits, {0, 1, 2}), make_loss);
      EXPECT_EQ(outputs[1].to_double()[0], 1) << classes << " classes";
    }
  });
}

TEST(SoftmaxCrossEntropy, ExtremeLogits) {
  for_each_isa([] {
    for (std::int64_t classes : {3, 12}) {
      std::vector<float> logits(static_cast<std::size_t>(classes), -3e38f);
      logits[1] = 3e38f;
      auto outputs = run_kernel(with_logits({1, classes}, logits, {1}), make_loss);
      EXPECT_EQ(outputs[0].to_double()[0], 0);
      for (double d : outputs[2].to_double()) EXPECT_EQ(d, 0);
      logits[0] = NAN;
      outputs = run_kernel(with_logits({1, classes}, logits, {1}), make_loss);
      EXPECT_TRUE(std::isnan(outputs[0].to_double()[0]));
      logits[0] = -INFINITY;
      outputs = run_kernel(with_logits({1, classes}, logits, {0}), make_loss);
      EXPECT_EQ(outputs[0].to_double()[0], INFINITY);
    }
  });
}

TEST(SoftmaxCrossEntropyGradient, FiniteDifferences) {
  for (float smoothing : {0.0f, 0.2f}) {
    const ReferenceArgs args = reference_args(loss_case(5, 4, smoothing, true, 2));
    check_gradient("softmax_cross_entropy",
                   softmax_cross_entropy_reference,
                   args,
                   0,
                   {1.0},
                   0,
                   softmax_cross_entropy_reference(args)[2]);
  }
}

/// Units in the last place of an fp32 value.
double ulp(double value) {
  const int exponent = std::max(std::ilogb(value), -126);
  return std::ldexp(1.0, exponent - 23);
}

template <typename Loop, typename Exact>
double worst_ulp(Loop loop, Exact exact, float begin, float end) {
  double worst = 0;
  float x[64], y[64];
  for (float v = begin; v < end;) {
    int n = 0;
    // Every value differs from the one before by about 2^-17 of itself.
    for (; n < 64 && v < end; ++n, v += std::max(std::abs(v), 1e-6f) * 0x1.1p-17f) x[n] = v;
    loop(y, x, n);
    for (int i = 0; i < n; ++i) {
      const double want = exact(double(x[i]));
      if (want == 0 || want < 0x1p-126) continue;
      worst = std::max(worst, std::abs(double(y[i]) - want) / ulp(want));
    }
  }
  return worst;
}

TEST(VectorMath, ExponentialAndLogarithmAreAsExactAsStated) {
  const auto exp_exact = [](double x) { return std::exp(x); };
  const auto log_exact = [](double x) { return std::log(x); };
  for_each_isa([&] {
    EXPECT_LE(worst_ulp(LOCKSTEP_CHOOSE(exp_nonpositive_array), exp_exact, -87.33f, 0.0f), 1.25);
    EXPECT_LE(worst_ulp(LOCKSTEP_CHOOSE(log_from_one_array), log_exact, 1.0f, 1e6f), 1.5);
  });
}

}  // namespace
}  // namespace lockstep::test
