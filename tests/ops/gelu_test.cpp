// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/gelu.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/transformer.h"

namespace lockstep::test {
namespace {

const std::vector<Shape> kGeluShapes = {{0, 7}, {1}, {15}, {33}, {3, 64}, {2, 5, 129}};
constexpr ops::GeluKind kKinds[] = {ops::GeluKind::erf, ops::GeluKind::tanh};

std::vector<OpCase> gelu_cases() {
  std::vector<OpCase> cases;
  for (ops::GeluKind kind : kKinds) {
    for (const Shape& shape : kGeluShapes)
      for (float range : {1.0f, 6.0f})
        cases.push_back({shape.to_string(),
                         std::make_shared<ops::Gelu>(kind),
                         {random_f32(shape, 1, -range, range)},
                         {{.c = 6, .scale = double(range)}}});
    cases.push_back({"bf16",
                     std::make_shared<ops::Gelu>(kind),
                     {rounded_to_bf16(random_f32({3, 67}, 1, -6, 6))},
                     {{.c = 6, .scale = 6}}});
    std::vector<float> special = {
        NAN, 0.0f, 1e-45f, -1e-45f, 1e30f, -1e30f, 3e38f, -3e38f, INFINITY};
    cases.push_back({"far out",
                     std::make_shared<ops::Gelu>(kind),
                     {f32_tensor({std::int64_t(special.size())}, special)},
                     {{.c = 1, .scale = 0x1p-100}}});
  }
  return cases;
}

std::vector<OpCase> gelu_bwd_cases() {
  std::vector<OpCase> cases;
  for (ops::GeluKind kind : kKinds) {
    for (const Shape& shape : kGeluShapes)
      cases.push_back({shape.to_string(),
                       std::make_shared<ops::GeluBwd>(kind),
                       {random_f32(shape, 2), random_f32(shape, 3, -6, 6)},
                       {{.c = 8, .scale = 1.13}}});
    cases.push_back(
        {"bf16",
         std::make_shared<ops::GeluBwd>(kind),
         {rounded_to_bf16(random_f32({3, 67}, 2)), rounded_to_bf16(random_f32({3, 67}, 3, -6, 6))},
         {{.c = 8, .scale = 1.13}}});
    cases.push_back(
        {"far out",
         std::make_shared<ops::GeluBwd>(kind),
         {f32_tensor({5}, {1, 1, 1, 1, 1}), f32_tensor({5}, {NAN, 1e30f, -1e30f, 3e38f, -3e38f})},
         {{.c = 1, .scale = 0x1p-100}}});
  }
  return cases;
}

LOCKSTEP_OP_TEST(Gelu, gelu, gelu_reference, gelu_cases)
LOCKSTEP_OP_TEST(GeluBwd, gelu_bwd, gelu_bwd_reference, gelu_bwd_cases)

TEST(GeluGradient, FiniteDifferences) {
  for (ops::GeluKind kind : kKinds) {
    const OpCase forward{"x", std::make_shared<ops::Gelu>(kind), {random_f32({40}, 4, -5, 5)}};
    const HostTensor dy = random_f32({40}, 5);
    const auto dx = gelu_bwd_reference(
        reference_args({"dx", std::make_shared<ops::GeluBwd>(kind), {dy, forward.inputs[0]}}));
    check_gradient("gelu", gelu_reference, reference_args(forward), 0, dy.to_double(), 0, dx[0]);
  }
}

/// Calls `check(x, y)` for values of x in [-limit, limit], each about 2^-15 of itself apart.
template <typename Loop, typename Check>
void sweep(Loop loop, float limit, Check check) {
  constexpr int kChunk = 64;
  float x[kChunk], y[kChunk];
  for (float sign : {-1.0f, 1.0f})
    for (float v = 1e-6f; v < limit;) {
      int n = 0;
      for (; n < kChunk && v < limit; ++n, v += v * 0x1.1p-15f) x[n] = sign * v;
      loop(y, x, n);
      for (int i = 0; i < n; ++i) check(double(x[i]), double(y[i]));
    }
}

double ulp(double value) { return std::ldexp(1.0, std::ilogb(value) - 23); }

TEST(Gelu, ErfFormIsAsExactAsStated) {
  for_each_isa([] {
    double worst = 0;
    sweep(LOCKSTEP_CHOOSE(gelu_erf<float>), 14, [&](double x, double y) {
      const double want = gelu_value(true, x);
      // Phi(-t) underflows with e^(-t^2 / 2), a factor t sqrt(2 pi) before the result does.
      if (std::abs(want) < 0x1p-118) return;
      worst = std::max(worst, std::abs(y - want) / ulp(want));
    });
    EXPECT_LE(worst, 6);
    RecordProperty("worst_ulp", std::to_string(worst));
  });
}

TEST(Gelu, TanhFormIsAsExactAsStated) {
  for_each_isa([] {
    double worst = 0;
    sweep(LOCKSTEP_CHOOSE(gelu_tanh<float>), 14, [&](double x, double y) {
      worst = std::max(worst, std::abs(y - gelu_value(false, x)) / (0x1p-24 * std::abs(x)));
    });
    EXPECT_LE(worst, 4);
    RecordProperty("worst", std::to_string(worst));
  });
}

TEST(Gelu, SlopesAreAsExactAsStated) {
  for_each_isa([] {
    for (bool erf : {true, false}) {
      const auto bwd =
          erf ? LOCKSTEP_CHOOSE(gelu_erf_bwd<float>) : LOCKSTEP_CHOOSE(gelu_tanh_bwd<float>);
      const auto slopes = [bwd](float* y, const float* x, std::int64_t n) {
        const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f);
        bwd(y, ones.data(), x, n);
      };
      double worst = 0;
      sweep(slopes, 14, [&](double x, double y) {
        worst = std::max(worst, std::abs(y - gelu_slope(erf, x)) / 0x1p-24);
      });
      EXPECT_LE(worst, 8) << (erf ? "erf" : "tanh");
      RecordProperty(erf ? "worst_erf" : "worst_tanh", std::to_string(worst));
    }
  });
}

}  // namespace
}  // namespace lockstep::test
