// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/graph.h"
#include "core/ops/conv2d.h"

namespace lockstep::cpu {

/// The windows of a convolution, one for each output pixel of an image, as the rows of a matrix
/// [pixels, depth], so that a convolution is a product of matrices (im2col: Chellapilla, Puri and
/// Simard 2006, section 3.1): for each image and group,
///   y = columns w^T, dcolumns = dy w, dw = dy^T columns,
/// with y: [pixels, filters], w: [filters, depth].
struct ConvolutionWindows {
  /// Of x: [images, h, w, c], weight: [o, r, s, c / groups] and y: [images, p, q, o].
  ConvolutionWindows(const ops::Conv2dAttrs& attrs,
                     const Shape& x,
                     const Shape& weight,
                     const Shape& y);

  ops::Conv2dAttrs attrs;
  std::int64_t images, h, w, c;
  std::int64_t r, s, p, q, o;
  std::int64_t channels, filters;  ///< of one group

  std::int64_t pixels() const { return p * q; }
  std::int64_t depth() const { return r * s * channels; }
  std::int64_t image_elems() const { return h * w * c; }  ///< of x
  /// Whether each window is one pixel with all its channels, so that x is the matrix already.
  bool are_pixels() const;
  std::size_t columns_bytes() const { return std::size_t(pixels() * depth()) * sizeof(float); }

  /// columns: [pixels, depth] = the windows of `group` in x: [h, w, c], zero beyond its edges.
  void gather(float* columns, const float* x, std::int64_t group) const;
  /// The transpose of gather: adds each element of columns to that of dx: [h, w, c] that it comes
  /// from, in the order of the windows.
  void scatter_add(float* dx, const float* columns, std::int64_t group) const;

 private:
  /// Calls visit(offset of a window's piece in x, or -1 beyond the edges, offset in columns) for
  /// each piece of `channels` elements.
  template <typename Visit>
  void for_each_piece(std::int64_t group, Visit visit) const;
};

}  // namespace lockstep::cpu
