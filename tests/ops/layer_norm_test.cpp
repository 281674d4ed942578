// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/layer_norm.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/transformer.h"

namespace lockstep::test {
namespace {

constexpr float kEps = 1e-5f;
const std::vector<Shape> kRowShapes = {{0, 7},
                                       {2, 0, 5},
                                       {1, 1},
                                       {3, 2},
                                       {5, 15},
                                       {2, 3, 16},
                                       {7, 33},
                                       {2, 65, 64},
                                       {1, 130, 100},
                                       {2, 3, 769},
                                       {9, 264},
                                       {5, 1000},
                                       {3, 2056},
                                       {1, 8192},
                                       {2, 8200},
                                       {2200, 8}};

OpCase forward_case(const Shape& shape, bool bias, bool residual, float center) {
  const std::int64_t width = shape[-1];
  OpCase c{fmt::format("{} around {}", shape.to_string(), center),
           std::make_shared<ops::LayerNorm>(kEps, bias, residual),
           {random_f32(shape, 1, center - 1, center + 1), random_f32({width}, 2, 0.5f, 1.5f)}};
  if (bias) c.inputs.push_back(random_f32({width}, 3));
  if (residual) c.inputs.push_back(random_f32(shape, 4));
  return c;
}

struct Extremes {
  double value = 1, rstd = 1, normal = 1;  ///< the largest |h|, rstd and |xhat|
};

Extremes extremes_of(const OpCase& forward) {
  const auto& op = op_cast<ops::LayerNorm>(*forward.op);
  const auto outputs = layer_norm_reference(reference_args(forward));
  std::vector<double> h = forward.inputs[0].to_double();
  if (op.residual()) h = outputs[2];
  const std::size_t width = std::size_t(forward.inputs[0].type.shape[-1]);
  Extremes e;
  for (std::size_t i = 0; i < h.size(); ++i) {
    const double mean = outputs[1][i / width * 2], rstd = outputs[1][i / width * 2 + 1];
    e.value = std::max(e.value, std::abs(h[i]));
    e.rstd = std::max(e.rstd, rstd);
    e.normal = std::max(e.normal, std::abs(h[i] - mean) * rstd);
  }
  return e;
}

std::vector<OpCase> layer_norm_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kRowShapes)
    for (bool bias : {false, true})
      for (bool residual : {false, true})
        for (float center : {0.0f, 100.0f}) {
          OpCase c = forward_case(shape, bias, residual, center);
          const Extremes e = extremes_of(c);
          // h and its mean are rounded a few times relative to |h|, which rstd and gamma <= 1.5
          // enlarge; so is the deviation in rstd, whose error xhat passes on.
          const double relative = e.value * e.rstd;
          c.tolerances = {{.c = 4, .scale = 1.5 * (relative * (1 + e.normal) + e.normal) + 1},
                          {.c = 4, .scale = std::max(e.value, e.rstd * (1 + relative))},
                          {.c = 1, .scale = e.value}};
          cases.push_back(c);
          // Where 2^-8 is small against the deviation.
          if (center != 0 || shape[-1] < 15) continue;
          c.inputs[0] = rounded_to_bf16(c.inputs[0]);
          if (residual) c.inputs.back() = rounded_to_bf16(c.inputs.back());
          c.name += ", bf16";
          cases.push_back(c);
        }
  return cases;
}

OpCase backward_case(const OpCase& forward, bool residual) {
  const auto& op = op_cast<ops::LayerNorm>(*forward.op);
  const Shape& shape = forward.inputs[0].type.shape;
  const auto outputs = layer_norm_reference(reference_args(forward));
  const std::vector<float> saved(outputs[1].begin(), outputs[1].end());
  OpCase c{forward.name,
           std::make_shared<ops::LayerNormBwd>(op.bias(), residual),
           {forward.inputs[0],
            random_f32(shape, 5),
            forward.inputs[1],
            f32_tensor({std::int64_t(saved.size() / 2), 2}, saved)}};
  if (residual) c.inputs.push_back(random_f32(shape, 6));
  return c;
}

/// With activations in bf16 where `narrow` says so: as the forward pass would have read them.
OpCase toleranced_backward_case(OpCase forward, bool residual, bool narrow) {
  if (narrow) forward.inputs[0] = rounded_to_bf16(forward.inputs[0]);
  OpCase c = backward_case(forward, residual);
  if (narrow) {
    c.name += ", bf16";
    c.inputs[1] = rounded_to_bf16(c.inputs[1]);
    if (residual) c.inputs[4] = rounded_to_bf16(c.inputs[4]);
  }
  const std::int64_t rows = c.inputs[3].type.shape[0];
  const Extremes e = extremes_of(forward);
  // dy * xhat has the variance of a product of two values in [-1, 1) times that of xhat, which is 3
  // of them.
  Tolerance gamma = of_products(rows), beta = of_products(rows);
  gamma.scale *= std::sqrt(3.0) * e.normal;
  beta.scale *= std::sqrt(3.0);
  // xhat and the two means are rounded relative to |h| rstd; g is at most 1.5.
  const double largest = 1.5 * e.rstd * (1 + e.normal * e.normal + e.value * e.rstd) + 1;
  c.tolerances = {{.c = 4, .scale = largest}, gamma, beta};
  return c;
}

std::vector<OpCase> layer_norm_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kRowShapes)
    for (bool bias : {false, true})
      for (bool residual : {false, true})
        for (bool narrow : {false, true})
          cases.push_back(
              toleranced_backward_case(forward_case(shape, bias, false, 0), residual, narrow));
  return cases;
}

LOCKSTEP_OP_TEST(LayerNorm, layer_norm, layer_norm_reference, layer_norm_cases)
LOCKSTEP_OP_TEST(LayerNormBwd, layer_norm_bwd, layer_norm_bwd_reference, layer_norm_bwd_cases)

TEST(LayerNormGradient, FiniteDifferences) {
  for (bool bias : {false, true}) {
    const OpCase forward = forward_case({2, 3, 5}, bias, false, 0);
    const OpCase backward = backward_case(forward, false);
    // In double precision throughout: the saved moments as well.
    ReferenceArgs bwd_args = reference_args(backward);
    const ReferenceArgs args = reference_args(forward);
    bwd_args.inputs[3] = layer_norm_reference(args)[1];
    const auto grads = layer_norm_bwd_reference(bwd_args);
    const std::vector<double> dy = backward.inputs[1].to_double();
    check_gradient("layer_norm x", layer_norm_reference, args, 0, dy, 0, grads[0]);
    check_gradient("layer_norm gamma", layer_norm_reference, args, 0, dy, 1, grads[1]);
    if (bias) check_gradient("layer_norm beta", layer_norm_reference, args, 0, dy, 2, grads[2]);
  }
}

}  // namespace
}  // namespace lockstep::test
