// SPDX-License-Identifier: Apache-2.0
#include "core/ops/channel_scale.h"

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

// Empty, single, channels that no vector divides, more rows than a block of the sums.
const std::vector<Shape> kScaledShapes = {
    {0, 4, 8}, {1, 1}, {3, 5}, {2, 3, 5, 33}, {40, 7, 16}, {2, 13, 11, 20}};

std::vector<OpCase> channel_scale_cases() {
  std::vector<OpCase> cases;
  for (const Shape& x : kScaledShapes)
    cases.push_back({x.to_string(),
                     std::make_shared<ops::ChannelScale>(),
                     {random_f32(x, 1), random_f32({x[-1]}, 2)},
                     {{.c = 1}},
                     {1}});
  return cases;
}

std::vector<OpCase> channel_scale_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Shape& x : kScaledShapes)
    cases.push_back({x.to_string(),
                     std::make_shared<ops::ChannelScaleBwd>(),
                     {random_f32(x, 3), random_f32(x, 4), random_f32({x[-1]}, 5)},
                     {{.c = 1}, of_products(x.elems() / x[-1])},
                     {2}});
  return cases;
}

LOCKSTEP_OP_TEST(ChannelScale, channel_scale, channel_scale_reference, channel_scale_cases)
LOCKSTEP_OP_TEST(ChannelScaleBwd,
                 channel_scale_bwd,
                 channel_scale_bwd_reference,
                 channel_scale_bwd_cases)

TEST(ChannelScaleGradient, FiniteDifferences) {
  const OpCase forward{
      "x", std::make_shared<ops::ChannelScale>(), {random_f32({3, 4, 5}, 1), random_f32({5}, 2)}};
  const ReferenceArgs args = reference_args(forward);
  const HostTensor dy = random_f32({3, 4, 5}, 3);
  const auto grads =
      channel_scale_bwd_reference(reference_args({"dx",
                                                  std::make_shared<ops::ChannelScaleBwd>(),
                                                  {dy, forward.inputs[0], forward.inputs[1]}}));
  for (const std::size_t i : {0u, 1u})
    check_gradient(
        "channel_scale", channel_scale_reference, args, 0, dy.to_double(), int(i), grads[i]);
}

}  // namespace
}  // namespace lockstep::test
