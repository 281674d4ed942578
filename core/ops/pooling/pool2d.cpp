// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/pool2d.h"

namespace lockstep::ops {

std::string to_string(const Pool2dAttrs& a) {
  return fmt::format("kernel={},{} stride={},{} padding={},{}",
                     a.kernel_h,
                     a.kernel_w,
                     a.stride_h,
                     a.stride_w,
                     a.padding_h,
                     a.padding_w);
}

Shape pool2d_output(std::string_view op, const Pool2dAttrs& a, const TensorType& input) {
  expect_activation(op, "input", input, 4);
  LOCKSTEP_CHECK(a.kernel_h >= 1 && a.kernel_w >= 1 && a.stride_h >= 1 && a.stride_w >= 1 &&
                     a.padding_h >= 0 && a.padding_w >= 0 && a.padding_h <= a.kernel_h / 2 &&
                     a.padding_w <= a.kernel_w / 2 && std::int64_t(a.kernel_h) * a.kernel_w <= 256,
                 ShapeError,
                 "{}: kernel and stride must be at least 1, the kernel at most 256 values, padding "
                 "at most half the kernel, got {}",
                 op,
                 to_string(a));
  const Shape& x = input.shape;
  LOCKSTEP_CHECK(x[1] >= 1 && x[2] >= 1,
                 ShapeError,
                 "{}: input must have a height and a width of at least 1, got {}",
                 op,
                 input.to_string());
  LOCKSTEP_CHECK(x[1] + 2 * std::int64_t(a.padding_h) >= a.kernel_h &&
                     x[2] + 2 * std::int64_t(a.padding_w) >= a.kernel_w,
                 ShapeError,
                 "{}: the {}x{} kernel is larger than the padded input {}",
                 op,
                 a.kernel_h,
                 a.kernel_w,
                 input.to_string());
  return {x[0],
          (x[1] + 2 * std::int64_t(a.padding_h) - a.kernel_h) / a.stride_h + 1,
          (x[2] + 2 * std::int64_t(a.padding_w) - a.kernel_w) / a.stride_w + 1,
          x[3]};
}

}  // namespace lockstep::ops
