// SPDX-License-Identifier: Apache-2.0
#include "core/ops/rotary.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numbers>

#include "kernels/cpu/kernel_list.h"
#include "lockstep/error.h"
#include "tests/ops/op_case.h"
#include "tests/reference/llama.h"

namespace lockstep::test {
namespace {

struct Size {
  std::int64_t samples, tokens;
  int heads, kv_heads;
  std::int64_t depth;
};
// Empty, one token, halves of a head off the vector widths and on them.
const Size kRotarySizes[] = {{0, 5, 2, 1, 4},
                             {2, 0, 2, 2, 4},
                             {2, 1, 3, 1, 2},
                             {2, 7, 2, 2, 6},
                             {1, 13, 4, 2, 34},
                             {2, 33, 2, 1, 64},
                             {1, 300, 2, 1, 16}};

ops::RotaryAttrs attrs_of(const Size& s, bool scaled) {
  ops::RotaryAttrs attrs{s.heads, s.kv_heads, {}};
  // So that pairs of each of the three kinds are there.
  if (scaled) attrs.positions = {.theta = 500000, .factor = 32, .original_context = 60};
  return attrs;
}

OpCase rotary_case(const Size& s, bool scaled) {
  const Shape q{s.samples, s.tokens, s.heads * s.depth},
      k{s.samples, s.tokens, s.kv_heads * s.depth};
  // Cosine and sine within 2^-23 of each, two products and a sum of values below 1.
  return {fmt::format("{}x{}, {}:{} of {}", s.samples, s.tokens, s.heads, s.kv_heads, s.depth),
          std::make_shared<ops::Rotary>(attrs_of(s, scaled)),
          {random_f32(q, 1), random_f32(k, 2), random_f32(k, 3)},
          {{.c = 8, .scale = 1}}};
}

std::vector<OpCase> rotary_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kRotarySizes)
    for (bool scaled : {false, true}) cases.push_back(rotary_case(s, scaled));
  return cases;
}

std::vector<OpCase> rotary_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kRotarySizes)
    for (bool scaled : {false, true})
      cases.push_back({rotary_case(s, scaled).name,
                       std::make_shared<ops::RotaryBwd>(attrs_of(s, scaled)),
                       {random_f32({s.samples, s.tokens, (s.heads + 2 * s.kv_heads) * s.depth}, 4)},
                       {{.c = 8, .scale = 1}, {.c = 8, .scale = 1}, {.c = 0}}});
  return cases;
}

LOCKSTEP_OP_TEST(Rotary, rotary, rotary_reference, rotary_cases)
LOCKSTEP_OP_TEST(RotaryBwd, rotary_bwd, rotary_bwd_reference, rotary_bwd_cases)

TEST(RotaryGradient, FiniteDifferences) {
  const Size size{2, 3, 2, 1, 4};
  const OpCase forward = rotary_case(size, false);
  const HostTensor dy = random_f32({2, 3, 16}, 5);
  const auto grads = rotary_bwd_reference(
      reference_args({"dx", std::make_shared<ops::RotaryBwd>(attrs_of(size, false)), {dy}}));
  for (int input : {0, 1, 2})
    check_gradient("rotary",
                   rotary_reference,
                   reference_args(forward),
                   0,
                   dy.to_double(),
                   input,
                   grads[std::size_t(input)]);
}

TEST(Rotary, CosineAndSineAreAsExactAsStated) {
  double worst = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const std::uint64_t phase = i * 0x9e3779b97f4a7c15u;  // all over the turn
    const ops::Rotation rotation = ops::rotation_of(phase);
    const double angle = std::ldexp(double(phase), -64) * 2 * std::numbers::pi;
    worst = std::max({worst,
                      std::abs(double(rotation.cosine) - std::cos(angle)),
                      std::abs(double(rotation.sine) - std::sin(angle))});
  }
  EXPECT_LE(worst, 0x1p-23);
  EXPECT_EQ(ops::rotation_of(0).cosine, 1.0f);
  EXPECT_EQ(ops::rotation_of(0).sine, 0.0f);
}

// A million positions away the angle is as exact as at the first one.
TEST(Rotary, PhasesWrapAroundAsAnglesDo) {
  const std::vector<std::uint64_t> phases = ops::rotary_phases({}, 64);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const std::int64_t position = 1'000'003;
    const long double turns =
        (long double)(position)*std::pow(10000.0L, -2.0L * (long double)(i) / 64.0L) /
        (2 * std::numbers::pi_v<long double>);
    const long double angle = (turns - std::floor(turns)) * 2 * std::numbers::pi_v<long double>;
    const ops::Rotation rotation = ops::rotation_of(phases[i] * std::uint64_t(position));
    // Frequencies are computed in fp64, within 2^-52 of a turn a position.
    const double tolerance = 0x1p-23 + 0x1p-52 * double(position) * 2 * std::numbers::pi;
    EXPECT_NEAR(rotation.cosine, double(std::cos(angle)), tolerance) << i;
    EXPECT_NEAR(rotation.sine, double(std::sin(angle)), tolerance) << i;
  }
}

TEST(Rotary, RefusesHeadsThatHaveNoPairs) {
  const TensorType q{{1, 2, 9}}, k{{1, 2, 3}};
  EXPECT_THROW(ops::Rotary({3, 1, {}}).infer(std::vector{q, k, k}), ShapeError);
  EXPECT_THROW(ops::Rotary({3, 2, {}}).infer(std::vector{q, k, k}), ShapeError);
}

}  // namespace
}  // namespace lockstep::test
