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
  const std::int64_t rows = op.rows(c.inputs[0].type);
  std::vector<float> logits(std::size_t(rows * pitch), NAN);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(c.inputs[0].as<float>() + r * classes, classes, logits.data() + r * pitch);
  std::vector<std::int64_t> dims(c.inputs[0].type.shape.dims().begin(),
                                 c.inputs[0].type.shape.dims().end());
  dims.back() = pitch;
  padded.inputs[0] = f32_tensor(Shape(dims), logits);
  return padded;
}

/// Labels of two classes, of which every third row's are the same; weights that add up to 1 as in
/// mixup, or to `most` at most.
OpCase soft_case(
    std::int64_t samples, std::int64_t classes, float smoothing, bool gradient, float most) {
  const double range = 4;
  OpCase c = loss_case(samples, classes, smoothing, gradient, float(range));
  c.name += fmt::format(", soft labels of weight {}", most);
  const HostTensor first = random_i32({samples}, 5, std::uint32_t(classes)),
                   second = random_i32({samples}, 6, std::uint32_t(classes)),
                   share = random_f32({samples}, 7, 0, 1),
                   weight = random_f32({samples}, 8, 0, most);
  std::vector<float> labels;
  for (std::int64_t n = 0; n < samples; ++n) {
    const float u = share.as<float>()[n];
    labels.push_back(float(first.as<std::int32_t>()[n]));
    labels.push_back(u);
    labels.push_back(n % 3 == 2 ? labels[labels.size() - 2] : float(second.as<std::int32_t>()[n]));
    labels.push_back(most == 1 ? 1 - u : weight.as<float>()[n]);
  }
  c.inputs[1] = f32_tensor({samples, 2, 2}, labels);
  // As in loss_case, times weights of `most` + 1 at most; products with them are two roundings
  // more.
  const double of_row = most == 1 ? 1 : double(most) + 1;
  const double one_weight = double(c.inputs[2].as<float>()[0]);
  const double one = 2 * range + std::log(double(classes)) + 1;
  c.tolerances = {
      {.c = 6, .n = double(classes), .scale = one_weight * double(samples) * one * of_row},
      {.c = 1},
      {.c = 6 + 2 * range, .n = double(classes), .scale = one_weight * of_row}};
  return c;
}

/// `c` with weights of classes from 0 to 2, the first of them 0.
OpCase weighted_case(const OpCase& c) {
  OpCase weighted = c;
  const auto& op = op_cast<ops::SoftmaxCrossEntropy>(*c.op);
  const std::int64_t classes = op.classes(c.inputs[0].type);
  const HostTensor weights = random_f32({classes}, 9, 0, 2);
  std::vector<float> values(weights.as<float>(), weights.as<float>() + classes);
  values[0] = 0;
  weighted.op = std::make_shared<ops::SoftmaxCrossEntropy>(
      op.label_smoothing(), op.with_gradient(), op.ignore_index(), 0, values);
  weighted.name += ", weighted";
  // Two roundings more, of numbers up to twice as large.
  const std::size_t gradient = std::size_t(op.gradient_output());
  for (const std::size_t i : {std::size_t{0}, gradient}) {
    weighted.tolerances[i].c += 2;
    weighted.tolerances[i].scale *= 2;
  }
  return weighted;
}

std::vector<OpCase> all_loss_cases() {
  std::vector<OpCase> cases = cross_entropy_cases();
  for (std::int64_t classes : {1, 2, 10, 17, 33, 1000})
    for (std::int64_t samples : {0, 1, 7, 33, 257})
      for (float most : {1.0f, 3.0f}) {
        if (samples * classes > 40000) continue;  // minutes in the emulator
        cases.push_back(soft_case(samples, classes, 0.0f, true, most));
        cases.push_back(soft_case(samples, classes, 0.1f, true, most));
        cases.push_back(soft_case(samples, classes, 0.1f, false, most));
      }
  for (std::int64_t classes : {2, 10, 33, 2000}) {  // of 2000 a GPU takes three launches
    cases.push_back(weighted_case(loss_case(33, classes, 0.0f, true, 4)));
    cases.push_back(weighted_case(loss_case(33, classes, 0.1f, false, 4)));
    cases.push_back(weighted_case(soft_case(33, classes, 0.1f, true, 1)));
    for (Ignored ignored : {Ignored::some, Ignored::all})
      cases.push_back(weighted_case(token_case({2, 9, classes}, 0.1f, true, ignored)));
  }
  for (const auto& [classes, pitch] : {std::array{7, 8}, {33, 64}, {1000, 1001}})
    cases.push_back(padded_case(soft_case(9, classes, 0.1f, true, 1), pitch));
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

TEST(SoftmaxCrossEntropyGradient, FiniteDifferencesOfSoftLabels) {
  for (float most : {1.0f, 3.0f}) {
    const ReferenceArgs args = reference_args(soft_case(6, 4, 0.2f, true, most));
    check_gradient("softmax_cross_entropy",
                   softmax_cross_entropy_reference,
                   args,
                   0,
                   {1.0},
                   0,
                   softmax_cross_entropy_reference(args)[2]);
  }
}

// A weight of 1 for one class is that class's label: the same numbers but for the order of sums.
TEST(SoftmaxCrossEntropy, AWholeWeightIsALabel) {
  for_each_isa([] {
    for (const bool first : {true, false}) {
      const OpCase hard = loss_case(33, 12, 0.1f, true, 4);
      OpCase soft = hard;
      std::vector<float> pairs;
      for (std::int64_t n = 0; n < 33; ++n) {
        const auto label = float(hard.inputs[1].as<std::int32_t>()[n]), other = float(n % 12);
        if (first)
          pairs.insert(pairs.end(), {label, 1, other, 0});
        else
          pairs.insert(pairs.end(), {other, 0, label, 1});
      }
      soft.inputs[1] = f32_tensor({33, 2, 2}, pairs);
      const auto expected = run_kernel(hard, make_loss), got = run_kernel(soft, make_loss);
      EXPECT_EQ(got[0].bytes, expected[0].bytes);
      EXPECT_EQ(got[1].bytes, expected[1].bytes);
      EXPECT_EQ(got[2].to_double(), expected[2].to_double());
    }
  });
}

TEST(SoftmaxCrossEntropy, SoftLabelsNeedOneRowASampleAndIgnoreNothing) {
  const ops::SoftmaxCrossEntropy plain(0, true), ignoring(0, true, -1);
  const TensorType weight{{1}, DType::f32}, soft{{4, 2, 2}, DType::f32};
  EXPECT_EQ(plain.infer(std::vector<TensorType>{{{4, 9}, DType::f32}, soft, weight}).size(), 3u);
  EXPECT_THROW(plain.infer(std::vector<TensorType>{{{4, 3, 9}, DType::f32}, soft, weight}),
               ShapeError);
  EXPECT_THROW(plain.infer(std::vector<TensorType>{{{5, 9}, DType::f32}, soft, weight}),
               ShapeError);
  EXPECT_THROW(ignoring.infer(std::vector<TensorType>{{{4, 9}, DType::f32}, soft, weight}),
               ShapeError);
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
