// SPDX-License-Identifier: Apache-2.0
// Each operator, forward and gradient rule, against float64 values of PyTorch.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "core/grad/differentiate.h"
#include "core/io/safetensors.h"
#include "core/ops/add.h"
#include "core/ops/attention.h"
#include "core/ops/avg_pool2d.h"
#include "core/ops/batch_norm.h"
#include "core/ops/conv2d.h"
#include "core/ops/embedding.h"
#include "core/ops/gelu.h"
#include "core/ops/global_avg_pool.h"
#include "core/ops/layer_norm.h"
#include "core/ops/linear.h"
#include "core/ops/max_pool2d.h"
#include "core/ops/mean_squared_error.h"
#include "core/ops/relu.h"
#include "core/ops/softmax_cross_entropy.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/agreement/graph_runner.h"

namespace lockstep::test {
namespace {

const io::SafetensorsReader& goldens() {
  static const io::SafetensorsReader reader(LOCKSTEP_GOLDENS "/operators.safetensors");
  return reader;
}

/// PyTorch's order of dimensions to ours: [N, C, H, W] -> [N, H, W, C] (also of weights).
Shape stored_shape(const std::vector<std::int64_t>& s) {
  return s.size() == 4 ? Shape{s[0], s[2], s[3], s[1]} : Shape(std::span(s));
}

template <typename T>
std::vector<T> to_stored(const std::vector<std::int64_t>& s, const std::vector<T>& values) {
  if (s.size() != 4) return values;
  std::vector<T> result;
  for (std::int64_t n = 0; n < s[0]; ++n)
    for (std::int64_t h = 0; h < s[2]; ++h)
      for (std::int64_t w = 0; w < s[3]; ++w)
        for (std::int64_t c = 0; c < s[1]; ++c)
          result.push_back(values[std::size_t(((n * s[1] + c) * s[2] + h) * s[3] + w)]);
  return result;
}

/// One operator with inputs from the golden file. Inputs are parameters, so that each has a
/// gradient; kernels then also choose their packed copies.
class GoldenCase {
 public:
  explicit GoldenCase(std::string name) : name_(std::move(name)), backend_(make_cpu_backend()) {}

  ValueId parameter(const std::string& tensor) {
    const io::TensorEntry& entry = goldens().entry(name_ + "." + tensor);
    Parameter p;
    p.name = tensor;
    p.shape = stored_shape(entry.shape);
    const ValueId id = graph_.add_parameter(p);
    values_[id] = to_stored(entry.shape, goldens().read<float>(entry.name));
    return id;
  }
  ValueId input(const std::string& tensor) {
    const io::TensorEntry& entry = goldens().entry(name_ + "." + tensor);
    const ValueId id = graph_.add_input(tensor, {stored_shape(entry.shape), DType::f32});
    values_[id] = to_stored(entry.shape, goldens().read<float>(entry.name));
    return id;
  }
  ValueId constant(const std::string& name, float value) {
    const ValueId id = graph_.add_input(name, {{1}, DType::f32});
    values_[id] = {value};
    return id;
  }
  ValueId labels() {
    labels_ = goldens().read<std::int32_t>(name_ + ".labels");
    const Shape shape = stored_shape(goldens().entry(name_ + ".labels").shape);
    labels_id_ = graph_.add_input("labels", {shape, DType::i32});
    return labels_id_;
  }

  template <typename Op, typename... Args>
  std::vector<ValueId> apply(std::vector<ValueId> inputs, Args&&... args) {
    return graph_.add_node(std::make_shared<Op>(std::forward<Args>(args)...),
                           std::move(inputs),
                           "layer",
                           SourceLoc::current());
  }
  /// Gradients with respect to the inputs of `output`'s producer.
  std::vector<ValueId> gradients(ValueId output, ValueId output_grad) {
    const std::vector<bool> all(graph_.values().size(), true);
    GradientBuilder builder(graph_, all);
    const Node node = graph_.nodes()[std::size_t(graph_.value(output).producer)];
    std::vector<ValueId> grads(node.outputs.size(), kNoValue);
    grads[0] = output_grad;
    return node.op->gradient(builder, node, grads);
  }

  void run() {
    runner_ = std::make_unique<GraphRunner>(graph_, *backend_);
    for (const auto& [id, values] : values_) runner_->set(id, std::span(values));
    if (labels_id_ != kNoValue) runner_->set(labels_id_, std::span<const std::int32_t>(labels_));
    runner_->run();
  }
  std::vector<float> get(ValueId id) const { return runner_->get(id); }

  /// |actual - golden| <= c 2^-24 sqrt(n) max|golden|: n roundings of partial sums that are no
  /// larger than the result, with random signs.
  void expect(const std::string& tensor, const std::vector<float>& actual, double n, double c = 4) {
    const io::TensorEntry& entry = goldens().entry(name_ + "." + tensor);
    const auto expected = to_stored(entry.shape, goldens().read<double>(entry.name));
    ASSERT_EQ(actual.size(), expected.size());
    double largest = 0;
    for (double value : expected) largest = std::max(largest, std::abs(value));
    const double tolerance = c * 0x1p-24 * std::sqrt(n) * largest;
    for (std::size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], tolerance) << name_ << "." << tensor << "[" << i << "]";
  }
  void expect(const std::string& tensor, ValueId id, double n, double c = 4) {
    ASSERT_NE(id, kNoValue) << name_ << ": no value for " << tensor;
    expect(tensor, get(id), n, c);
  }

 private:
  std::string name_;
  std::unique_ptr<Backend> backend_;
  Graph graph_;
  std::map<ValueId, std::vector<float>> values_;
  std::vector<std::int32_t> labels_;
  ValueId labels_id_ = kNoValue;
  std::unique_ptr<GraphRunner> runner_;
};

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

void check_token_loss(const std::string& name, float smoothing) {
  GoldenCase golden("softmax_cross_entropy." + name);
  const ValueId x = golden.parameter("x"), labels = golden.labels();
  const ValueId weight = golden.constant("sample_weight", 1.0f / 3.0f);
  const auto y = golden.apply<ops::SoftmaxCrossEntropy>({x, labels, weight}, smoothing, true, -1);
  const auto grads = golden.gradients(y[0], kNoValue);
  golden.run();
  const float counted = golden.get(y[2])[0];
  EXPECT_NEAR(counted, 16.0 / 21.0, 1e-6);
  const auto mean = [&](ValueId id) {
    std::vector<float> values = golden.get(id);
    for (float& value : values) value /= counted;
    return values;
  };
  // As check_softmax_cross_entropy; the weight, its sum and the quotient round as well.
  const double c = 4 * (2 + 2 * 3);
  golden.expect("loss", mean(y[0]), 21 + 21, c);
  golden.expect("correct", mean(y[1]), 21);
  golden.expect("grad_x", mean(grads[0]), 21, c);
}

TEST(AgreementOperators, TokenLoss) {
  check_token_loss("tokens", 0.0f);
  check_token_loss("tokens_smoothed", 0.1f);
}

TEST(AgreementOperators, Embedding) {
  for (bool positions : {false, true}) {
    GoldenCase golden(positions ? "embedding.positions" : "embedding.plain");
    std::vector<ValueId> inputs{golden.labels(), golden.parameter("weight")};
    if (positions) inputs.push_back(golden.parameter("positions"));
    const ValueId y = golden.apply<ops::Embedding>(inputs, positions)[0];
    const auto grads = golden.gradients(y, golden.input("grad_y"));
    golden.run();
    golden.expect("y", y, 1, positions ? 1 : 0);
    golden.expect("grad_weight", grads[1], 8);
    if (positions) golden.expect("grad_positions", grads[2], 3);
  }
}

void check_layer_norm(const std::string& name, bool bias, bool residual) {
  GoldenCase golden("layer_norm." + name);
  std::vector<ValueId> inputs{golden.parameter("x"), golden.parameter("weight")};
  if (bias) inputs.push_back(golden.parameter("bias"));
  if (residual) inputs.push_back(golden.parameter("residual"));
  const ValueId y = golden.apply<ops::LayerNorm>(inputs, 1e-5f, bias, residual)[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  // Sums of 33 columns, and of 10 rows.
  golden.expect("y", y, 33);
  golden.expect("grad_x", grads[0], 33);
  golden.expect("grad_weight", grads[1], 33);
  if (bias) golden.expect("grad_bias", grads[2], 10);
  if (residual) golden.expect("grad_residual", grads[3], 33);
}

TEST(AgreementOperators, LayerNorm) {
  check_layer_norm("plain", false, false);
  check_layer_norm("bias", true, false);
  check_layer_norm("residual", true, true);
}

TEST(AgreementOperators, Gelu) {
  for (ops::GeluKind kind : {ops::GeluKind::erf, ops::GeluKind::tanh}) {
    GoldenCase golden("gelu." + std::string(ops::name_of(kind)));
    const ValueId y = golden.apply<ops::Gelu>({golden.parameter("x")}, kind)[0];
    const auto grads = golden.gradients(y, golden.input("grad_y"));
    golden.run();
    // Both loops state their errors: 6 ulp of the result or 4 * 2^-24 |x|, and 8 * 2^-24.
    golden.expect("y", y, 1, 6);
    golden.expect("grad_x", grads[0], 1, 8);
  }
}

void check_attention(const std::string& name, int heads, bool causal, double depth) {
  GoldenCase golden("attention." + name);
  const ops::AttentionAttrs attrs{.heads = heads, .causal = causal};
  const ValueId y = golden.apply<ops::Attention>({golden.parameter("qkv")}, attrs)[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  // A weight is as inexact as its score, a sum of D products below 4 over sqrt(D).
  golden.expect("y", y, depth, 4 * (1 + 4));
  golden.expect("grad_qkv", grads[0], depth, 4 * (1 + 2 * 4));
}

TEST(AgreementOperators, Attention) {
  check_attention("causal", 3, true, 8);
  check_attention("full", 3, false, 8);
  check_attention("long", 1, true, 5);
}

TEST(AgreementOperators, MeanSquaredError) {
  GoldenCase golden("mean_squared_error.small");
  const ValueId x = golden.parameter("x"), target = golden.input("target");
  const ValueId weight = golden.constant("sample_weight", 1.0f / 13.0f);
  const auto y = golden.apply<ops::MeanSquaredError>({x, target, weight}, true);
  const auto grads = golden.gradients(y[0], kNoValue);
  golden.run();
  golden.expect("loss", y[0], 13 * 7);
  golden.expect("grad_x", grads[0], 1);
}

}  // namespace
}  // namespace lockstep::test
