// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/max_pool2d.h"

#include <cmath>
#include <gtest/gtest.h>

#include "core/ops/pooling/avg_pool2d.h"
#include "kernels/cpu/kernel_list.h"
#include "lockstep/error.h"
#include "tests/ops/op_case.h"
#include "tests/ops/pool_cases.h"
#include "tests/reference/pooling.h"

namespace lockstep::test {
namespace {

std::vector<OpCase> max_pool2d_cases() {
  std::vector<OpCase> cases;
  for (const PoolCase& c : pool_cases())
    cases.push_back({c.input.to_string(),
                     std::make_shared<ops::MaxPool2d>(c.attrs),
                     {random_f32(c.input, 1)},
                     {{.c = 0}, {.c = 0}}});
  for (const PoolCase& c : pool_cases()) {
    HostTensor ties = random_f32(c.input, 2);
    for (std::int64_t i = 0; i < ties.type.elems(); ++i) {
      float& v = ties.as<float>()[i];
      v = v > 0.8f ? NAN : v < -0.8f ? -INFINITY : std::round(2 * v);
    }
    cases.push_back({"ties, NaN and infinities " + c.input.to_string(),
                     std::make_shared<ops::MaxPool2d>(c.attrs),
                     {ties},
                     {{.c = 0}, {.c = 0}}});
  }
  return cases;
}

std::vector<OpCase> max_pool2d_bwd_cases() {
  std::vector<OpCase> cases;
  for (const PoolCase& c : pool_cases()) {
    const OpCase forward{"x", std::make_shared<ops::MaxPool2d>(c.attrs), {random_f32(c.input, 3)}};
    const ReferenceArgs args = reference_args(forward);
    const ReferenceOutputs outputs = max_pool2d_reference(args);
    HostTensor winner = random_u8(args.output_types[1].shape, 0);
    for (std::size_t i = 0; i < winner.bytes.size(); ++i)
      winner.as<std::uint8_t>()[i] = std::uint8_t(outputs[1][i]);
    // An element wins in at most as many windows as the kernel has positions; each addition rounds
    // a partial sum that is below their number.
    const double overlap = double(c.attrs.kernel_h * c.attrs.kernel_w);
    cases.push_back({c.input.to_string(),
                     std::make_shared<ops::MaxPool2dBwd>(c.attrs, c.input),
                     {random_f32(args.output_types[0].shape, 4), winner},
                     {{.c = 1, .n = overlap, .scale = overlap}}});
  }
  return cases;
}

LOCKSTEP_OP_TEST(MaxPool2d, max_pool2d, max_pool2d_reference, max_pool2d_cases)
LOCKSTEP_OP_TEST(MaxPool2dBwd, max_pool2d_bwd, max_pool2d_bwd_reference, max_pool2d_bwd_cases)

TEST(MaxPool2dGradient, FiniteDifferences) {
  const ops::Pool2dAttrs attrs{3, 3, 2, 2, 1, 1};
  const Shape input{2, 5, 6, 3};
  const OpCase forward{"x", std::make_shared<ops::MaxPool2d>(attrs), {random_f32(input, 5)}};
  const ReferenceArgs args = reference_args(forward);
  const std::vector<double> dy = random_f32(args.output_types[0].shape, 6).to_double();
  const ops::MaxPool2dBwd bwd(attrs, input);
  const ReferenceArgs bwd_args{
      bwd, args.output_types, args.input_types, {dy, max_pool2d_reference(args)[1]}, "", {}};
  // Steps far below the distance of the random values, so that no winner changes.
  check_gradient("max_pool2d",
                 max_pool2d_reference,
                 args,
                 0,
                 dy,
                 0,
                 max_pool2d_bwd_reference(bwd_args)[0],
                 1e-6);
}

/// Padding alone makes room for a window, of which nothing lies inside the image.
TEST(Pool2d, ImagesWithoutPositionsAreAnError) {
  const ops::Pool2dAttrs attrs{2, 2, 1, 1, 1, 1};
  for (const Shape& input : {Shape{2, 0, 4, 3}, Shape{2, 4, 0, 3}}) {
    const TensorType x{input, DType::f32};
    EXPECT_THROW(ops::MaxPool2d(attrs).infer({&x, 1}), ShapeError) << x.to_string();
    EXPECT_THROW(ops::AvgPool2d(attrs).infer({&x, 1}), ShapeError) << x.to_string();
  }
}

}  // namespace
}  // namespace lockstep::test
