// SPDX-License-Identifier: Apache-2.0
// The operators of transformers, forward and gradient rule, against float64 values of PyTorch.
#include <gtest/gtest.h>

#include "core/ops/activations/gelu.h"
#include "core/ops/activations/swiglu.h"
#include "core/ops/attention.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"
#include "core/ops/rotary.h"
#include "tests/agreement/golden_case.h"

namespace lockstep::test {
namespace {

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

TEST(AgreementOperators, RmsNorm) {
  for (bool residual : {false, true}) {
    GoldenCase golden(residual ? "rms_norm.residual" : "rms_norm.plain");
    std::vector<ValueId> inputs{golden.parameter("x"), golden.parameter("weight")};
    if (residual) inputs.push_back(golden.parameter("residual"));
    const ValueId y = golden.apply<ops::RmsNorm>(inputs, 1e-5f, residual)[0];
    const auto grads = golden.gradients(y, golden.input("grad_y"));
    golden.run();
    golden.expect("y", y, 33);
    golden.expect("grad_x", grads[0], 33);
    golden.expect("grad_weight", grads[1], 10);
    if (residual) golden.expect("grad_residual", grads[2], 33);
  }
}

TEST(AgreementOperators, Swiglu) {
  GoldenCase golden("swiglu.plain");
  const ValueId y =
      golden.apply<ops::Swiglu>({golden.parameter("gate"), golden.parameter("up")})[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  // Eight roundings and ten, as in swiglu_test.cpp.
  golden.expect("y", y, 1, 8);
  golden.expect("grad_gate", grads[0], 1, 10);
  golden.expect("grad_up", grads[1], 1, 8);
}

TEST(AgreementOperators, Rotary) {
  GoldenCase golden("rotary.grouped");
  const ValueId y = golden.apply<ops::Rotary>(
      {golden.parameter("q"), golden.parameter("k"), golden.parameter("v")},
      ops::RotaryAttrs{4, 2, {}})[0];
  const auto grads = golden.gradients(y, golden.input("grad_y"));
  golden.run();
  // Cosine and sine within 2^-23, two products and a sum.
  golden.expect("y", y, 1, 8);
  golden.expect("grad_q", grads[0], 1, 8);
  golden.expect("grad_k", grads[1], 1, 8);
  golden.expect("grad_v", grads[2], 1, 0);
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

void check_attention(
    const std::string& name, int heads, bool causal, double depth, int kv_heads = 0) {
  GoldenCase golden("attention." + name);
  const ops::AttentionAttrs attrs{.heads = heads, .kv_heads = kv_heads, .causal = causal};
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
  check_attention("grouped", 4, true, 8, 2);
}

}  // namespace
}  // namespace lockstep::test
