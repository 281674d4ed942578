// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/rms_norm.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/transformer.h"

namespace lockstep::test {
namespace {

constexpr float kRmsEps = 1e-5f;
// Widths around the kernels' choices, as layer norm's, whose kernels these are.
const std::vector<Shape> kRmsShapes = {{0, 7},
                                       {2, 0, 5},
                                       {1, 1},
                                       {5, 15},
                                       {2, 3, 16},
                                       {7, 33},
                                       {2, 65, 64},
                                       {2, 3, 769},
                                       {9, 264},
                                       {5, 1000},
                                       {3, 2056},
                                       {2, 8200},
                                       {700, 8}};

OpCase rms_case(const Shape& shape, bool residual) {
  OpCase c{shape.to_string(),
           std::make_shared<ops::RmsNorm>(kRmsEps, residual),
           {random_f32(shape, 1), random_f32({shape[-1]}, 2, 0.5f, 1.5f)}};
  if (residual) c.inputs.push_back(random_f32(shape, 4));
  return c;
}

struct RmsExtremes {
  double value = 1, rstd = 1, normal = 1;  ///< the largest |h|, rstd and |xhat|
};

RmsExtremes rms_extremes(const OpCase& forward) {
  const auto outputs = rms_norm_reference(reference_args(forward));
  const bool residual = op_cast<ops::RmsNorm>(*forward.op).residual();
  const std::vector<double> h = residual ? outputs[2] : forward.inputs[0].to_double();
  const auto width = std::size_t(forward.inputs[0].type.shape[-1]);
  RmsExtremes e;
  for (std::size_t i = 0; i < h.size(); ++i) {
    e.value = std::max(e.value, std::abs(h[i]));
    e.rstd = std::max(e.rstd, outputs[1][i / width]);
    e.normal = std::max(e.normal, std::abs(h[i]) * outputs[1][i / width]);
  }
  return e;
}

std::vector<OpCase> rms_norm_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kRmsShapes)
    for (bool residual : {false, true}) {
      OpCase c = rms_case(shape, residual);
      const RmsExtremes e = rms_extremes(c);
      // Half of what the sum of squares, all positive, loses in at most sqrt(C) roundings a chain
      // of sixteen lanes or a warp; a rounding of h, which moves rstd and xhat alike; gamma <= 1.5.
      const double squares = 1 + std::sqrt(double(std::max<std::int64_t>(shape[-1], 1)) / 8) / 4;
      c.tolerances = {{.c = 4, .scale = 1.5 * e.normal * (1 + squares)},
                      {.c = 4, .scale = e.rstd * (1 + squares)},
                      {.c = 1, .scale = e.value}};
      cases.push_back(c);
    }
  return cases;
}

OpCase rms_bwd_case(const OpCase& forward, bool residual) {
  const Shape& shape = forward.inputs[0].type.shape;
  const auto outputs = rms_norm_reference(reference_args(forward));
  const std::vector<float> saved(outputs[1].begin(), outputs[1].end());
  OpCase c{forward.name,
           std::make_shared<ops::RmsNormBwd>(residual),
           {forward.inputs[0],
            random_f32(shape, 5),
            forward.inputs[1],
            f32_tensor({std::int64_t(saved.size())}, saved)}};
  if (residual) c.inputs.push_back(random_f32(shape, 6));
  return c;
}

std::vector<OpCase> rms_norm_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kRmsShapes)
    for (bool residual : {false, true})
      for (bool narrow : {false, true}) {
        OpCase forward = rms_case(shape, false);
        if (narrow) forward.inputs[0] = rounded_to_bf16(forward.inputs[0]);
        OpCase c = rms_bwd_case(forward, residual);
        if (narrow) {
          c.name += ", bf16";
          c.inputs[1] = rounded_to_bf16(c.inputs[1]);
          if (residual) c.inputs[4] = rounded_to_bf16(c.inputs[4]);
        }
        const RmsExtremes e = rms_extremes(forward);
        // As layer norm's (layer_norm_test.cpp), with one mean.
        Tolerance gamma = of_products(c.inputs[3].type.shape[0]);
        gamma.scale *= std::sqrt(3.0) * e.normal;
        const double largest = 1.5 * e.rstd * (1 + e.normal * e.normal) + 1;
        c.tolerances = {{.c = 4, .scale = largest}, gamma};
        cases.push_back(c);
      }
  return cases;
}

LOCKSTEP_OP_TEST(RmsNorm, rms_norm, rms_norm_reference, rms_norm_cases)
LOCKSTEP_OP_TEST(RmsNormBwd, rms_norm_bwd, rms_norm_bwd_reference, rms_norm_bwd_cases)

TEST(RmsNormGradient, FiniteDifferences) {
  const OpCase forward = rms_case({2, 3, 5}, false);
  const OpCase backward = rms_bwd_case(forward, false);
  ReferenceArgs bwd_args = reference_args(backward);
  const ReferenceArgs args = reference_args(forward);
  bwd_args.inputs[3] = rms_norm_reference(args)[1];
  const auto grads = rms_norm_bwd_reference(bwd_args);
  const std::vector<double> dy = backward.inputs[1].to_double();
  check_gradient("rms_norm x", rms_norm_reference, args, 0, dy, 0, grads[0]);
  check_gradient("rms_norm gamma", rms_norm_reference, args, 0, dy, 1, grads[1]);
}

}  // namespace
}  // namespace lockstep::test
