// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/regression_losses.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/losses.h"

namespace lockstep::test {
namespace {

/// Inputs of [samples, features], differences below 2 in size. `largest`: of an element's loss.
OpCase regression_case(std::shared_ptr<const Operator> op,
                       std::int64_t samples,
                       std::int64_t features,
                       double largest) {
  const float weight = 1.0f / 64;
  // Summed over the features in fp32 and over samples in fp64.
  return {fmt::format("{}, {} samples of {}", op->attributes(), samples, features),
          std::move(op),
          {random_f32({samples, features}, 1),
           random_f32({samples, features}, 2),
           f32_tensor({1}, {weight})},
          {{.c = 2, .n = double(features), .scale = largest * double(weight) * double(samples)},
           {.c = 4, .scale = 4 * double(weight) / double(features)}}};
}

/// `make` gives the operator with and without gradient.
template <typename Make>
std::vector<OpCase> regression_cases(Make make, double largest) {
  std::vector<OpCase> cases;
  for (std::int64_t features : {1, 3, 10, 31, 33, 1025})
    for (std::int64_t samples : {0, 1, 5, 33})
      for (bool gradient : {true, false})
        cases.push_back(regression_case(make(gradient), samples, features, largest));
  cases.push_back(regression_case(make(true), 3, 0, largest));
  return cases;
}

std::vector<OpCase> squared_error_cases() {
  return regression_cases(
      [](bool gradient) { return std::make_shared<ops::MeanSquaredError>(gradient); }, 4);
}

std::vector<OpCase> l1_cases() {
  return regression_cases([](bool gradient) { return std::make_shared<ops::L1Loss>(gradient); }, 2);
}

std::vector<OpCase> huber_cases() {
  std::vector<OpCase> cases;
  for (float delta : {0.25f, 1.0f, 3.0f}) {
    // The loss at 2; a difference that is rounded moves it by delta times that.
    const double d = double(delta), largest = std::max(d * 2, 0.5 * 4);
    const auto more = regression_cases(
        [=](bool gradient) { return std::make_shared<ops::HuberLoss>(delta, gradient); }, largest);
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

LOCKSTEP_OP_TEST(MeanSquaredError,
                 mean_squared_error,
                 mean_squared_error_reference,
                 squared_error_cases)
LOCKSTEP_OP_TEST(L1Loss, l1_loss, l1_loss_reference, l1_cases)
LOCKSTEP_OP_TEST(HuberLoss, huber_loss, huber_loss_reference, huber_cases)

/// Differences that keep away from 0 and from a delta of 1/2, where slopes jump.
void check_regression_gradient(std::shared_ptr<const Operator> op, Reference reference) {
  OpCase c = regression_case(std::move(op), 5, 3, 4);
  constexpr float kDifferences[] = {0.25f, -0.75f, 1.5f, -0.125f};
  for (int i = 0; i < 15; ++i)
    c.inputs[0].as<float>()[i] = c.inputs[1].as<float>()[i] + kDifferences[i % 4];
  const ReferenceArgs args = reference_args(c);
  check_gradient(
      std::string(name_of(c.op->kind())), reference, args, 0, {1.0}, 0, reference(args)[1]);
}

TEST(RegressionLossGradient, FiniteDifferences) {
  check_regression_gradient(std::make_shared<ops::MeanSquaredError>(true),
                            mean_squared_error_reference);
  check_regression_gradient(std::make_shared<ops::L1Loss>(true), l1_loss_reference);
  check_regression_gradient(std::make_shared<ops::HuberLoss>(0.5f, true), huber_loss_reference);
}

std::unique_ptr<Kernel> make_l1(const KernelSpec& spec) {
  return cpu::make_l1_loss_kernel(op_cast<ops::L1Loss>(spec.op), spec);
}
std::unique_ptr<Kernel> make_huber(const KernelSpec& spec) {
  return cpu::make_huber_loss_kernel(op_cast<ops::HuberLoss>(spec.op), spec);
}

/// `differences`, repeated, against zeros: a sample of few features takes another loop than one of
/// many.
std::vector<HostTensor> losses_of(std::shared_ptr<const Operator> op,
                                  const KernelFactory& factory,
                                  const std::vector<float>& differences,
                                  int repeats) {
  std::vector<float> x;
  for (int i = 0; i < repeats; ++i) x.insert(x.end(), differences.begin(), differences.end());
  const Shape shape{1, std::int64_t(x.size())};
  const OpCase c{"kinks",
                 std::move(op),
                 {f32_tensor(shape, x),
                  f32_tensor(shape, std::vector<float>(x.size())),
                  f32_tensor({1}, {1})}};
  return run_kernel(c, factory);
}

TEST(RegressionLoss, WhereSlopesJump) {
  const std::vector<float> differences{0, 1, -1, 3, -3, 10000};
  for_each_isa([&] {
    for (int repeats : {1, 4}) {
      const double elems = 6 * repeats;
      const auto l1 = losses_of(std::make_shared<ops::L1Loss>(true), make_l1, differences, repeats);
      const auto huber =
          losses_of(std::make_shared<ops::HuberLoss>(1.0f, true), make_huber, differences, repeats);
      EXPECT_FLOAT_EQ(l1[0].as<float>()[0], float(10008.0 / 6));
      EXPECT_FLOAT_EQ(huber[0].as<float>()[0], float((0.5 + 0.5 + 2.5 + 2.5 + 9999.5) / 6));
      const double slopes[] = {0, 1, -1, 1, -1, 1};
      for (std::size_t i = 0; i < std::size_t(elems); ++i) {
        EXPECT_EQ(l1[1].as<float>()[i], float(slopes[i % 6] / elems)) << i;
        EXPECT_EQ(huber[1].as<float>()[i], float(slopes[i % 6] / elems)) << i;
      }
    }
  });
}

TEST(RegressionLoss, NanStaysNan) {
  for_each_isa([] {
    for (int repeats : {1, 12}) {
      for (const auto& outputs :
           {losses_of(std::make_shared<ops::L1Loss>(true), make_l1, {NAN, 1}, repeats),
            losses_of(
                std::make_shared<ops::HuberLoss>(1.0f, true), make_huber, {NAN, 1}, repeats)}) {
        EXPECT_TRUE(std::isnan(outputs[0].as<float>()[0]));
        EXPECT_TRUE(std::isnan(outputs[1].as<float>()[0]));
        EXPECT_FALSE(std::isnan(outputs[1].as<float>()[1]));
      }
    }
  });
}

TEST(RegressionLoss, DeltaMustBePositive) {
  const TensorType x{{2, 3}, DType::f32};
  for (float delta : {0.0f, -1.0f, INFINITY, NAN})
    EXPECT_THROW(ops::HuberLoss(delta, true).infer(std::vector{x, x, TensorType{{1}, DType::f32}}),
                 ShapeError);
}

}  // namespace
}  // namespace lockstep::test
