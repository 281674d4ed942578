// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

struct Pool2dAttrs {
  int kernel_h = 2, kernel_w = 2;
  int stride_h = 2, stride_w = 2;
  int padding_h = 0, padding_w = 0;  ///< at most half the kernel
};

/// "kernel=2,2 stride=2,2 padding=0,0"
std::string to_string(const Pool2dAttrs& attrs);
/// [N, H, W, C] -> [N, P, Q, C], P = (H + 2 pad - kernel) / stride + 1. Throws ShapeError naming
/// `op`.
Shape pool2d_output(std::string_view op, const Pool2dAttrs& attrs, const TensorType& input);

}  // namespace lockstep::ops
