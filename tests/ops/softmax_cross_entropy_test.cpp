// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/softmax_cross_entropy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/losses/losses.h"
#include "tests/ops/bf16_variant.h"
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
           // A probability p is a quotient of exponentials of rounded differences below 2 range.
           // Those of bf16 logits are 2^-22 off on a device, and their arguments 3 * 2^-24 u, u
           // being the difference: 4 + 3 u of 2^-24. Times p the own one is 4 + 3 u e^-u at most,
           // or 5.2, the sum's 4 + 3 log K, since log K bounds the mean of u: less than what is
           // granted here for K of 2 and more, and for K of 1 both are exact.
           {.c = 4 + 2 * double(range), .n = double(classes), .scale = double(weight)}}};
}

std::vector<OpCase> cross_entropy_cases() {
  std::vector<OpCase> cases;
  for (std::int64_t classes : {1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 17, 31, 33, 100, 1000})
    for (std::int64_t samples : {0, 1, 7, 16, 33, 120}) {
      cases.push_back(loss_case(samples, classes, 0.0f, true, 4));
      cases.push_back(loss_case(samples, classes, 0.1f, true, 30));
      cases.push_back(loss_case(samples, classes, 0.1f, false, 1));
    }
  return cases;
}

constexpr std::int32_t kIgnore = -1;

struct TokenSize {
  std::int64_t samples, tokens, classes;
};

enum class Ignored { none, some, all };

/// Rows of tokens, the first with label 0, the second with the last one, `ignored` in between.
OpCase token_case(const TokenSize& s, float smoothing, bool gradient, Ignored ignored) {
  const double range = 3;
  OpCase c = loss_case(s.samples * s.tokens, s.classes, smoothing, gradient, float(range));
  c.op = std::make_shared<ops::SoftmaxCrossEntropy>(smoothing, gradient, kIgnore);
  c.name = fmt::format(
      "{} x {} tokens, {} classes, ignored: {}", s.samples, s.tokens, s.classes, int(ignored));
  c.inputs[0].type.shape = {s.samples, s.tokens, s.classes};
  c.inputs[1].type.shape = {s.samples, s.tokens};
  auto* const label = c.inputs[1].as<std::int32_t>();
  const std::int64_t rows = s.samples * s.tokens;
  if (rows > 0) label[0] = 0;
  if (rows > 1) label[1] = std::int32_t(s.classes - 1);
  for (std::int64_t r = 0; r < rows; ++r)
    if (ignored == Ignored::all || (ignored == Ignored::some && r % 3 == 2)) label[r] = kIgnore;
  // As in loss_case with a weight over T; the division is one rounding more, and the sums of
  // weights that are all alike are exact but for it.
  const double weight =
      double(c.inputs[2].as<float>()[0]) / double(std::max(s.tokens, std::int64_t{1}));
  const double one = 2 * range + std::log(double(s.classes)) + 1;
  const double counted = weight * double(rows);
  c.tolerances = {{.c = 5, .n = double(s.classes), .scale = counted * one},
                  {.c = 2, .scale = counted},
                  {.c = 2, .scale = counted},
                  {.c = 5 + 2 * range, .n = double(s.classes), .scale = weight}};
  return c;
}

/// `c` with rows of `pitch` logits, NaN after the classes.
OpCase padded_case(const OpCase& c, std::int64_t pitch) {
  OpCase padded = c;
  const auto& op = op_cast<ops::SoftmaxCrossEntropy>(*c.op);
  const std::int64_t classes = c.inputs[0].type.shape[-1];
  padded.op = std::make_shared<ops::SoftmaxCrossEntropy>(
      op.label_smoothing(), op.with_gradient(), op.ignore_index(), classes);
  padded.name += fmt::format(" in {}", pitch);
  const std::int64_t rows = c.inputs[1].type.elems();
  std::vector<float> logits(std::size_t(rows * pitch), NAN);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(c.inputs[0].as<float>() + r * classes, classes, logits.data() + r * pitch);
  std::vector<std::int64_t> dims(c.inputs[0].type.shape.dims().begin(),
                                 c.inputs[0].type.shape.dims().end());
  dims.back() = pitch;
  padded.inputs[0] = f32_tensor(Shape(dims), logits);
  return padded;
}

std::vector<OpCase> all_loss_cases() {
  std::vector<OpCase> cases = cross_entropy_cases();
  for (const TokenSize& s : {TokenSize{0, 4, 5},
                             TokenSize{2, 0, 5},
                             TokenSize{1, 1, 1},
                             TokenSize{3, 1, 7},
                             TokenSize{2, 17, 10},
                             TokenSize{3, 16, 33},
                             TokenSize{2, 33, 65},
                             TokenSize{1, 3, 50257}})
    for (Ignored ignored : {Ignored::none, Ignored::some, Ignored::all}) {
      cases.push_back(token_case(s, 0.0f, true, ignored));
      cases.push_back(token_case(s, 0.1f, false, ignored));
      for (float smoothing : {0.0f, 0.1f}) {
        cases.push_back(token_case(s, smoothing, true, ignored));
        cases.back().name += ", bf16";
        cases.back().inputs[0] = rounded_to_bf16(cases.back().inputs[0]);
      }
    }
  for (const auto& [classes, pitch] : {std::array{7, 8}, {33, 64}, {1000, 1024}, {1000, 1001}})
    for (float smoothing : {0.0f, 0.1f})
      for (bool gradient : {true, false})
        cases.push_back(
            padded_case(token_case({2, 9, classes}, smoothing, gradient, Ignored::some), pitch));
  // As many rows of as many classes as one block does on a GPU, and more.
  for (std::int64_t rows : {255, 256, 257})
    for (std::int64_t classes : {16, 17})
      for (bool gradient : {true, false}) {
        cases.push_back(loss_case(rows, classes, 0.1f, gradient, 4));
        cases.push_back(token_case({1, rows, classes}, 0.0f, gradient, Ignored::some));
        cases.push_back(
            padded_case(token_case({1, rows, classes}, 0.1f, gradient, Ignored::some), 24));
      }
  return cases;
}

LOCKSTEP_OP_TEST(SoftmaxCrossEntropy,
                 softmax_cross_entropy,
                 softmax_cross_entropy_reference,
                 all_loss_cases)

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

TEST(SoftmaxCrossEntropy, IgnoredRowsMayHoldAnything) {
  for_each_isa([] {
    for (std::int64_t classes : {3, 33}) {
      OpCase c = token_case({2, 9, classes}, 0.1f, true, Ignored::some);
      const auto clean = run_kernel(c, make_loss);
      for (std::int64_t r = 2; r < 18; r += 3)
        c.inputs[0].as<float>()[r * classes] = r % 2 == 0 ? NAN : INFINITY;
      const auto outputs = run_kernel(c, make_loss);
      for (std::size_t i = 0; i < outputs.size(); ++i)
        EXPECT_EQ(outputs[i].bytes, clean[i].bytes) << "output " << i;
    }
  });
}

TEST(SoftmaxCrossEntropy, AClassCanBeIgnored) {
  for_each_isa([] {
    for (std::int64_t classes : {4, 20}) {
      std::vector<float> logits(std::size_t(2 * classes), 0.0f);
      OpCase c = with_logits({2, classes}, logits, {0, 1});
      c.op = std::make_shared<ops::SoftmaxCrossEntropy>(0.0f, true, 0);
      const auto outputs = run_kernel(c, make_loss);
      EXPECT_NEAR(outputs[0].to_double()[0], std::log(double(classes)), 1e-6);
      EXPECT_EQ(outputs[1].to_double()[0], 0);
      EXPECT_EQ(outputs[2].to_double()[0], 1);
    }
  });
}

/// Units in the last place of an fp32 value.
double spacing_at(double value) {
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
      worst = std::max(worst, std::abs(double(y[i]) - want) / spacing_at(want));
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
