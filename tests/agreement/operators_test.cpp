// SPDX-License-Identifier: Apache-2.0
// Each operator, forward and gradient rule, against float64 values of PyTorch.
#include <cmath>
#include <gtest/gtest.h>

#include "core/ops/activations/relu.h"
#include "core/ops/add.h"
#include "core/ops/cast.h"
#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "core/ops/losses/binary_cross_entropy.h"
#include "core/ops/losses/regression_losses.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "core/ops/norms/batch_norm.h"
#include "core/ops/pooling/avg_pool2d.h"
#include "core/ops/pooling/global_avg_pool.h"
#include "core/ops/pooling/max_pool2d.h"
#include "core/ops/scale.h"
#include "tests/agreement/golden_case.h"

namespace lockstep::test {
namespace {

void check_linear(const std::string& name, bool bias) {
  GoldenCase golden(name);
  std::vector<ValueId> inputs{golden.parameter("x"), golden.parameter("weight")};
  if (bias) inputs.push_back(golden.parameter("bias"));
  const ValueId y = golden.apply<ops::Linear>(inputs, bias)[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  golden.expect("y", y, 37);
  golden.expect("grad_x", grads[0], 19);
  golden.expect("grad_weight", grads[1], 9);
  if (bias) golden.expect("grad_bias", grads[2], 9);
}

TEST(AgreementOperators, Linear) {
  check_linear("linear.bias", true);
  check_linear("linear.plain", false);
}

void check_conv2d(const std::string& name, const ops::Conv2dAttrs& attrs) {
  GoldenCase golden("conv2d." + name);
  const auto weight = goldens().entry("conv2d." + name + ".weight").shape;
  const auto y_shape = goldens().entry("conv2d." + name + ".y").shape;
  std::vector<ValueId> inputs{golden.parameter("x"), golden.parameter("weight")};
  if (attrs.bias) inputs.push_back(golden.parameter("bias"));
  const ValueId y = golden.apply<ops::Conv2d>(inputs, attrs)[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  const double window = double(weight[2] * weight[3]);
  const double positions = double(y_shape[0] * y_shape[2] * y_shape[3]);
  golden.expect("y", y, double(weight[1]) * window);
  golden.expect("grad_x", grads[0], double(weight[0]) / attrs.groups * window);
  golden.expect("grad_weight", grads[1], positions);
  if (attrs.bias) golden.expect("grad_bias", grads[2], positions);
}

TEST(AgreementOperators, Conv2d) {
  const auto attrs = [](int stride, int padding, int groups = 1, bool bias = false) {
    return ops::Conv2dAttrs{stride, stride, padding, padding, groups, bias};
  };
  check_conv2d("plain", attrs(1, 0));
  check_conv2d("padded", attrs(1, 1));
  check_conv2d("bias", attrs(1, 1, 1, true));
  check_conv2d("stride2", attrs(2, 1));
  check_conv2d("pointwise", attrs(2, 0));
  check_conv2d("stem", attrs(2, 3));
  check_conv2d("oblong", {2, 1, 1, 0, 1, true});
  check_conv2d("groups", attrs(1, 1, 2, true));
  check_conv2d("depthwise", attrs(1, 1, 16));
}

void check_batch_norm(const std::string& name, double centre) {
  GoldenCase golden("batch_norm." + name);
  const auto shape = goldens().entry("batch_norm." + name + ".x").shape;
  const float eps = 1e-5f, momentum = 0.1f;
  const ValueId x = golden.parameter("x"), gamma = golden.parameter("weight");
  const ValueId beta = golden.parameter("bias"), mean = golden.parameter("running_mean");
  const ValueId var = golden.parameter("running_var");
  const ValueId moments = golden.apply<ops::BatchNormMoments>({x}, 0)[0];
  const ValueId weight = golden.constant("sample_weight", 1.0f / float(shape[0]));
  const auto y =
      golden.apply<ops::BatchNormNormalize>({x, gamma, beta, moments, mean, var, weight}, 0, eps);
  const auto grads = golden.gradients(y[0], golden.input("grad_y"));
  const ValueId inference =
      golden.apply<ops::BatchNormInference>({x, gamma, beta, mean, var}, eps)[0];
  golden.run();

  // x - mean loses |mean| / deviation in relative accuracy; x is uniform in centre +- 1.
  const double c = 4 * (1 + centre * std::sqrt(3.0));
  double n = double(shape[0]);
  if (shape.size() == 4) n *= double(shape[2] * shape[3]);
  golden.expect("y", y[0], n, c);
  golden.expect("y_inference", inference, 1, c);
  golden.expect("grad_x", grads[0], n, c);
  golden.expect("grad_weight", grads[1], n, c);
  golden.expect("grad_bias", grads[2], n);

  std::vector<float> running_mean = golden.get(mean), running_var = golden.get(var);
  const auto mean_sum = golden.get(y[2]), var_sum = golden.get(y[3]), weights = golden.get(y[4]);
  for (std::size_t i = 0; i < running_mean.size(); ++i) {
    running_mean[i] += momentum * (mean_sum[i] - weights[0] * running_mean[i]);
    running_var[i] += momentum * (var_sum[i] - weights[0] * running_var[i]);
  }
  golden.expect("running_mean_after", running_mean, n);
  golden.expect("running_var_after", running_var, n, c);
}

TEST(AgreementOperators, BatchNorm) {
  check_batch_norm("images", 0.25);
  check_batch_norm("vectors", 0.25);
  check_batch_norm("shifted", 100);
}

TEST(AgreementOperators, ReluIsExact) {
  GoldenCase golden("relu.small");
  const ValueId y = golden.apply<ops::Relu>({golden.parameter("x")})[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  golden.expect("y", y, 1, 0);
  golden.expect("grad_x", grads[0], 1, 0);
}

TEST(AgreementOperators, Add) {
  GoldenCase golden("add.small");
  const ValueId a = golden.parameter("input"), b = golden.parameter("other");
  const ValueId y = golden.apply<ops::Add>({a, b})[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  golden.expect("y", y, 1);
  golden.expect("grad_input", grads[0], 1, 0);
  golden.expect("grad_other", grads[1], 1, 0);
}

TEST(AgreementOperators, Scale) {
  GoldenCase golden("scale.small");
  const ValueId y = golden.apply<ops::Scale>({golden.parameter("x")}, 0.375f)[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  golden.expect("y", y, 1, 1);
  golden.expect("grad_x", grads[0], 1, 1);
}

TEST(AgreementOperators, CastIsExact) {
  GoldenCase golden("cast.bf16");
  const ValueId narrow = golden.apply<ops::Cast>({golden.parameter("x")}, DType::bf16)[0];
  const ValueId y = golden.apply<ops::Cast>({narrow}, DType::f32)[0];
  const auto narrow_grad = golden.gradients(y, golden.input("grad_y"));
  const auto grads = golden.gradients(narrow, narrow_grad[0]);
  golden.run();
  golden.expect("y", y, 1, 0);
  golden.expect("grad_x", grads[0], 1, 0);
}

template <typename Pool>
void check_pool(const std::string& name, int kernel, int stride, int padding, double c) {
  GoldenCase golden(name);
  const ops::Pool2dAttrs attrs{kernel, kernel, stride, stride, padding, padding};
  const ValueId y = golden.apply<Pool>({golden.parameter("x")}, attrs)[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  golden.expect("y", y, kernel * kernel, c);
  golden.expect("grad_x", grads[0], kernel * kernel);
}

TEST(AgreementOperators, Pools) {
  check_pool<ops::MaxPool2d>("max_pool2d.halving", 2, 2, 0, 0);
  check_pool<ops::MaxPool2d>("max_pool2d.overlapping", 3, 2, 1, 0);
  check_pool<ops::MaxPool2d>("max_pool2d.dense", 3, 1, 1, 0);
  check_pool<ops::AvgPool2d>("avg_pool2d.halving", 2, 2, 0, 4);
  check_pool<ops::AvgPool2d>("avg_pool2d.overlapping", 3, 2, 1, 4);
  check_pool<ops::AvgPool2d>("avg_pool2d.dense", 3, 1, 1, 4);
}

TEST(AgreementOperators, GlobalAvgPool) {
  GoldenCase golden("global_avg_pool.small");
  const ValueId y = golden.apply<ops::GlobalAvgPool>({golden.parameter("x")})[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  golden.expect("y", y, 35);
  golden.expect("grad_x", grads[0], 1);
}

void check_softmax_cross_entropy(const std::string& name, float smoothing, double bound) {
  GoldenCase golden("softmax_cross_entropy." + name);
  const ValueId x = golden.parameter("x"), labels = golden.labels();
  const ValueId weight = golden.constant("sample_weight", 1.0f / 13.0f);
  const auto y = golden.apply<ops::SoftmaxCrossEntropy>({x, labels, weight}, smoothing, true);
  const auto grads = golden.gradients(y[0], kNoValue);
  golden.run();
  // exp(x - max) is as inexact as x - max is large, which is at most 2 bound.
  const double c = 4 * (1 + 2 * bound);
  golden.expect("loss", y[0], 13 + 10, c);
  golden.expect("correct", y[1], 13);
  golden.expect("grad_x", grads[0], 10, c);
}

TEST(AgreementOperators, SoftmaxCrossEntropy) {
  check_softmax_cross_entropy("plain", 0.0f, 3);
  check_softmax_cross_entropy("smoothed", 0.1f, 3);
  check_softmax_cross_entropy("steep", 0.0f, 90);
}

TEST(AgreementOperators, SoftmaxCrossEntropyWithClassWeights) {
  GoldenCase golden("softmax_cross_entropy.weighted");
  const ValueId x = golden.parameter("x"), labels = golden.labels();
  const ValueId weight = golden.constant("sample_weight", 1.0f / 13.0f);
  std::vector<float> weights;
  for (int k = 0; k < 10; ++k) weights.push_back(float(k) / 4);
  const auto y = golden.apply<ops::SoftmaxCrossEntropy>(
      {x, labels, weight}, 0.0f, true, std::nullopt, std::int64_t{0}, weights);
  const auto grads = golden.gradients(y[0], kNoValue);
  golden.run();
  const double c = 4 * (1 + 2 * 3);
  golden.expect("loss", y[0], 13 + 10, c);
  golden.expect("correct", y[1], 13);
  golden.expect("grad_x", grads[0], 10, c);
}

void check_soft_cross_entropy(const std::string& name, float smoothing) {
  GoldenCase golden("softmax_cross_entropy." + name);
  const ValueId x = golden.parameter("x"), target = golden.input("target");
  const ValueId weight = golden.constant("sample_weight", 1.0f / 13.0f);
  const auto y = golden.apply<ops::SoftmaxCrossEntropy>({x, target, weight}, smoothing, true);
  const auto grads = golden.gradients(y[0], kNoValue);
  golden.run();
  const double c = 4 * (1 + 2 * 3);  // as above
  golden.expect("loss", y[0], 13 + 10, c);
  golden.expect("correct", y[1], 13);
  golden.expect("grad_x", grads[0], 10, c);
}

TEST(AgreementOperators, SoftmaxCrossEntropyOfSoftLabels) {
  check_soft_cross_entropy("soft", 0.0f);
  check_soft_cross_entropy("soft_smoothed", 0.1f);
}

template <typename Op, typename... Args>
void check_regression_loss(const std::string& name, Args... args) {
  GoldenCase golden(name + ".small");
  const ValueId x = golden.parameter("x"), target = golden.input("target");
  const ValueId weight = golden.constant("sample_weight", 1.0f / 13.0f);
  const auto y = golden.apply<Op>({x, target, weight}, args..., true);
  const auto grads = golden.gradients(y[0], kNoValue);
  golden.run();
  golden.expect("loss", y[0], 13 * 7);
  golden.expect("grad_x", grads[0], 1);
}

TEST(AgreementOperators, RegressionLosses) {
  check_regression_loss<ops::MeanSquaredError>("mean_squared_error");
  check_regression_loss<ops::L1Loss>("l1_loss");
  check_regression_loss<ops::HuberLoss>("huber_loss", 0.5f);
}

void check_binary_cross_entropy(const std::string& name) {
  GoldenCase golden("binary_cross_entropy." + name);
  const ValueId x = golden.parameter("x"), target = golden.input("target");
  const ValueId weight = golden.constant("sample_weight", 1.0f / 13.0f);
  const auto y = golden.apply<ops::BinaryCrossEntropy>({x, target, weight}, true);
  const auto grads = golden.gradients(y[0], kNoValue);
  golden.run();
  golden.expect("loss", y[0], 13 * 7);
  golden.expect("correct", y[1], 1);
  golden.expect("grad_x", grads[0], 1);
}

TEST(AgreementOperators, BinaryCrossEntropy) {
  check_binary_cross_entropy("plain");
  check_binary_cross_entropy("steep");
}

}  // namespace
}  // namespace lockstep::test
