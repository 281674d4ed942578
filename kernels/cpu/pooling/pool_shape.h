// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/pooling/pool2d.h"
#include "kernels/cpu/pooling/pooling.h"

namespace lockstep::cpu {

/// `input` [N, H, W, C] and `output` [N, P, Q, C] of the forward operator.
inline PoolShape pool_shape(const ops::Pool2dAttrs& attrs,
                            const Shape& input,
                            const Shape& output) {
  return {.n = input[0],
          .h = input[1],
          .w = input[2],
          .c = input[3],
          .p = output[1],
          .q = output[2],
          .kernel_h = attrs.kernel_h,
          .kernel_w = attrs.kernel_w,
          .stride_h = attrs.stride_h,
          .stride_w = attrs.stride_w,
          .padding_h = attrs.padding_h,
          .padding_w = attrs.padding_w};
}

}  // namespace lockstep::cpu
