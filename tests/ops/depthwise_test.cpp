// SPDX-License-Identifier: Apache-2.0
// Loops of depthwise convolutions by themselves, as kernels take those of a matrix library for some
// sizes.
#include "kernels/cpu/convolution/depthwise.h"

#include <gtest/gtest.h>

#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/conv2d.h"

namespace lockstep::test {
namespace {

struct DepthwiseResults {
  std::vector<float> y, dx, dw;
};

/// Windows that have loops of their own, whose tiles are cut off by edges and by the last columns,
/// and one that has not; channels that fill no vector.
constexpr cpu::DepthwiseShape kDepthwiseShapes[] = {
    {2, 9, 17, 20, 9, 17, 3, 3, 1, 1, 1, 1},
    {1, 15, 31, 40, 8, 16, 3, 3, 2, 2, 1, 1},
    {2, 5, 16, 33, 5, 16, 7, 7, 1, 1, 3, 3},
    {1, 6, 7, 5, 3, 4, 5, 5, 2, 2, 2, 2},
    // Three chunks of channels: rows too long for the first-level cache.
    {1, 2, 112, 96, 2, 112, 3, 3, 1, 1, 1, 1},
};

DepthwiseResults run_loops(const cpu::DepthwiseShape& s) {
  const HostTensor x = random_f32({s.n, s.h, s.w, s.c}, 1),
                   dy = random_f32({s.n, s.p, s.q, s.c}, 2),
                   weight = random_f32({s.c, s.kernel_h, s.kernel_w, 1}, 3),
                   bias = random_f32({s.c}, 4);
  const std::size_t elems = std::size_t(s.tap_elems());
  const std::int64_t count = s.kernel_h * s.kernel_w;
  std::vector<float> taps(elems), dtaps(elems), image(elems);
  DepthwiseResults results{std::vector<float>(std::size_t(dy.type.elems())),
                           std::vector<float>(std::size_t(x.type.elems())),
                           std::vector<float>(elems)};
  LOCKSTEP_CHOOSE(transpose_taps)(taps.data(), weight.as<float>(), s.c, count);
  LOCKSTEP_CHOOSE(depthwise<float>)
  (results.y.data(), x.as<float>(), taps.data(), bias.as<float>(), s);
  LOCKSTEP_CHOOSE(depthwise_bwd_data<float>)(results.dx.data(), dy.as<float>(), taps.data(), s);
  LOCKSTEP_CHOOSE(depthwise_bwd_weights<float>)
  (dtaps.data(), image.data(), x.as<float>(), dy.as<float>(), s);
  LOCKSTEP_CHOOSE(store_taps)(results.dw.data(), dtaps.data(), s.c, count, false);
  return results;
}

// Each sum is one chain of fused multiply-adds in an order that no vector's width enters, and the
// other tests compare the kernels of one set with the reference.
TEST(DepthwiseLoops, HaveTheSameBitsOnEveryInstructionSet) {
  for (const cpu::DepthwiseShape& s : kDepthwiseShapes) {
    std::optional<DepthwiseResults> first;
    for_each_isa([&] {
      const DepthwiseResults here = run_loops(s);
      if (!first) first = here;
      EXPECT_EQ(here.y, first->y) << s.kernel_w << " of " << s.w;
      EXPECT_EQ(here.dx, first->dx) << s.kernel_w << " of " << s.w;
      EXPECT_EQ(here.dw, first->dw) << s.kernel_w << " of " << s.w;
    });
  }
}

}  // namespace
}  // namespace lockstep::test
