// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/absent/convolution_windows.h"

#include <algorithm>

namespace lockstep::cpu {

ConvolutionWindows::ConvolutionWindows(const ops::Conv2dAttrs& attributes,
                                       const Shape& x,
                                       const Shape& weight,
                                       const Shape& y)
    : attrs(attributes),
      images(x[0]),
      h(x[1]),
      w(x[2]),
      c(x[3]),
      r(weight[1]),
      s(weight[2]),
      p(y[1]),
      q(y[2]),
      o(y[3]),
      channels(weight[3]),
      filters(o / attributes.groups) {}

bool ConvolutionWindows::are_pixels() const {
  return r == 1 && s == 1 && attrs.stride_h == 1 && attrs.stride_w == 1 && attrs.padding_h == 0 &&
         attrs.padding_w == 0 && attrs.groups == 1;
}

template <typename Visit>
void ConvolutionWindows::for_each_piece(std::int64_t group, Visit visit) const {
  std::int64_t column = 0;
  for (std::int64_t i = 0; i < p; ++i)
    for (std::int64_t j = 0; j < q; ++j)
      for (std::int64_t k = 0; k < r; ++k)
        for (std::int64_t l = 0; l < s; ++l, column += channels) {
          const std::int64_t row = i * attrs.stride_h + k - attrs.padding_h;
          const std::int64_t col = j * attrs.stride_w + l - attrs.padding_w;
          const bool inside = row >= 0 && row < h && col >= 0 && col < w;
          visit(inside ? (row * w + col) * c + group * channels : -1, column);
        }
}

void ConvolutionWindows::gather(float* columns, const float* x, std::int64_t group) const {
  for_each_piece(group, [&](std::int64_t from, std::int64_t to) {
    if (from < 0)
      std::fill_n(columns + to, channels, 0.0f);
    else
      std::copy_n(x + from, channels, columns + to);
  });
}

void ConvolutionWindows::scatter_add(float* dx, const float* columns, std::int64_t group) const {
  for_each_piece(group, [&](std::int64_t to, std::int64_t from) {
    if (to < 0) return;
    for (std::int64_t k = 0; k < channels; ++k) dx[to + k] += columns[from + k];
  });
}

}  // namespace lockstep::cpu
