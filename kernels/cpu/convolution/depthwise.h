// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Note [Depthwise convolutions]
///
/// Each channel is convolved with a filter of its own, so that nothing is shared but the window: 2
/// R S operations for each number that is written, too few for the packed products of a matrix
/// library. In NHWC a vector holds one pixel's neighbouring channels. The loops take a tile of
/// neighbouring pixels of one row at a time, with one vector of channels each in registers, and
/// walk the rows of the window: each pixel is loaded once a row, and multiplied by all taps whose
/// windows it lies in. So the loads are few even where they also widen bf16.
///
/// The order of additions is that of the taps (in the data gradient's tiles, of the columns of dy),
/// whatever the tile is: bits depend on the formula alone. A tap beyond the edge adds nothing.
///
/// Weight gradient: a tap's products along a row of y are one fp32 chain, the rows of an image are
/// added in order, then the images. So its error is at most (Q + P + N) 2^-24 of the sum of
/// absolute products, where one chain would have N P Q.
namespace lockstep::cpu {

/// x: [n, h, w, c], y: [n, p, q, c], taps: [kernel_h, kernel_w, c] f32.
struct DepthwiseShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0, p = 0, q = 0;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  std::int64_t padding_h = 0, padding_w = 0;

  std::int64_t tap_elems() const { return kernel_h * kernel_w * c; }
};

/// y = conv(x, taps) + bias; bias: [c] or null.
LOCKSTEP_STORED_LOOP(
    void,
    depthwise,
    (T * y, const T* x, const float* taps, const float* bias, const DepthwiseShape& shape));
/// dx: the transpose, applied to dy.
LOCKSTEP_STORED_LOOP(void,
                     depthwise_bwd_data,
                     (T * dx, const T* dy, const float* taps, const DepthwiseShape& shape));
/// dtaps: the sums of products of x and dy. image: as many elements, scratch.
LOCKSTEP_STORED_LOOP(
    void,
    depthwise_bwd_weights,
    (float* dtaps, float* image, const T* x, const T* dy, const DepthwiseShape& shape));
/// taps[t, c] = weight[c, t]
LOCKSTEP_LOOP(void,
              transpose_taps,
              (float* taps, const float* weight, std::int64_t channels, std::int64_t count));
/// dweight[c, t] (=|+=) dtaps[t, c]
LOCKSTEP_LOOP(void,
              store_taps,
              (float* dweight,
               const float* dtaps,
               std::int64_t channels,
               std::int64_t count,
               bool accumulate));

}  // namespace lockstep::cpu
