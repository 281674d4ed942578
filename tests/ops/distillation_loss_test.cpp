// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/distillation_loss.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/losses.h"

namespace lockstep::test {
namespace {

ops::Distilled soft(float alpha, float temperature) {
  return {.alpha = alpha, .temperature = temperature, .hard = false};
}

/// Logits of student and teacher in [-range, range].
OpCase taught_case(
    const ops::Distilled& d, std::int64_t rows, std::int64_t classes, float range, bool gradient) {
  const float weight = 1.0f / 64, base = 0.25f;
  // A probability is e^(x / T) over the sum of `classes` of them: the difference, the quotient by
  // T, two units of e, the sum and the division are relative errors of it; so are those of the mean
  // of the exponents' differences, each at most 4 range / T, and of both logarithms, below that
  // and ln of the classes. A sum of `classes` values rounds once for each addition in a row.
  const double temperature = d.temperature, additions = double(classes) / 4 + 8;
  const double share = double(weight) * double(d.alpha);
  const double exponent = 4 * double(range) / temperature + std::log(double(classes)) + 1;
  return {fmt::format("{} rows of {} classes to +-{}{}",
                      rows,
                      classes,
                      range,
                      d.hard ? ", hard" : fmt::format(", T = {}", d.temperature)),
          std::make_shared<ops::DistillationLoss>(d, gradient),
          {random_f32({rows, classes}, 1, -range, range),
           random_f32({rows, classes}, 2, -range, range),
           f32_tensor({1}, {weight}),
           f32_tensor({1}, {base})},
          {{.c = additions + 10,
            .scale = double(base) + share * temperature * temperature * double(rows) * exponent},
           {.c = additions + 10 + exponent, .scale = share * temperature}}};
}

std::vector<OpCase> distillation_loss_cases() {
  std::vector<OpCase> cases;
  for (std::int64_t classes : {1, 2, 10, 31, 33, 1000})
    for (std::int64_t rows : {0, 1, 5, 33})
      for (bool gradient : {true, false})
        cases.push_back(taught_case(soft(0.5f, 3), rows, classes, 4, gradient));
  for (std::int64_t classes : {1, 7, 33, 1000})
    for (bool gradient : {true, false})
      cases.push_back(taught_case({1, 1, true}, 9, classes, 4, gradient));
  for (float temperature : {0.5f, 1.0f, 20.0f})
    cases.push_back(taught_case(soft(0.1f, temperature), 7, 33, 8, true));
  return cases;
}

LOCKSTEP_OP_TEST(DistillationLoss,
                 distillation_loss,
                 distillation_loss_reference,
                 distillation_loss_cases)

std::unique_ptr<Kernel> make_distillation(const KernelSpec& spec) {
  return cpu::make_distillation_loss_kernel(op_cast<ops::DistillationLoss>(spec.op), spec);
}

TEST(DistillationLossGradient, FiniteDifferences) {
  for (const ops::Distilled& d : {soft(0.7f, 2), ops::Distilled{0.7f, 1, true}}) {
    const OpCase c = taught_case(d, 5, 4, 2, true);
    const ReferenceArgs args = reference_args(c);
    check_gradient("distillation_loss",
                   distillation_loss_reference,
                   args,
                   0,
                   {1.0},
                   0,
                   distillation_loss_reference(args)[1]);
  }
}

// What a student who agrees has left: nothing of a soft teacher; of a hard one what its own
// uncertainty costs.
TEST(DistillationLoss, OfEqualLogits) {
  for_each_isa([] {
    for (const bool hard : {false, true}) {
      OpCase c = taught_case(hard ? ops::Distilled{1, 1, true} : soft(1, 4), 3, 40, 6, true);
      c.inputs[1] = c.inputs[0];
      const auto outputs = run_kernel(c, make_distillation);
      if (hard) {
        EXPECT_GT(outputs[0].to_double()[0], 0.25);
        continue;
      }
      EXPECT_FLOAT_EQ(outputs[0].as<float>()[0], 0.25f);
      for (const double slope : outputs[1].to_double()) EXPECT_EQ(slope, 0);
    }
  });
}

TEST(DistillationLoss, OfSeveralLikeliestClassesTheFirstCounts) {
  for_each_isa([] {
    OpCase c = taught_case({1, 1, true}, 1, 20, 1, true);
    float* const teacher = c.inputs[1].as<float>();
    teacher[5] = teacher[17] = 3;
    const auto slopes = run_kernel(c, make_distillation)[1].to_double();
    EXPECT_EQ(std::ranges::min_element(slopes) - slopes.begin(), 5);
    EXPECT_EQ(std::ranges::count_if(slopes, [](double slope) { return slope < 0; }), 1);
  });
}

TEST(DistillationLoss, LargeLogitsStayFiniteAndNanStaysNan) {
  for_each_isa([] {
    for (const bool hard : {false, true}) {
      OpCase c = taught_case(hard ? ops::Distilled{1, 1, true} : soft(1, 3), 2, 20, 1e30f, true);
      for (const HostTensor& output : run_kernel(c, make_distillation))
        for (const double value : output.to_double()) EXPECT_TRUE(std::isfinite(value)) << hard;
      c.inputs[0].as<float>()[3] = NAN;
      EXPECT_TRUE(std::isnan(run_kernel(c, make_distillation)[0].to_double()[0]));
    }
  });
}

TEST(DistillationLoss, RefusesWhatItCannotMean) {
  const TensorType logits{{4, 3}, DType::f32}, one{{1}, DType::f32};
  const auto infer = [&](const ops::Distilled& d, const TensorType& teacher) {
    return ops::DistillationLoss(d, true).infer(std::vector<TensorType>{logits, teacher, one, one});
  };
  EXPECT_NO_THROW(infer(soft(1, 3), logits));
  EXPECT_THROW(infer(soft(0, 3), logits), ShapeError);
  EXPECT_THROW(infer(soft(1.5f, 3), logits), ShapeError);
  EXPECT_THROW(infer(soft(1, 0), logits), ShapeError);
  EXPECT_THROW(infer({1, 3, true}, logits), ShapeError);
  EXPECT_THROW(infer(soft(1, 3), {{4, 2}, DType::f32}), ShapeError);
}

}  // namespace
}  // namespace lockstep::test
