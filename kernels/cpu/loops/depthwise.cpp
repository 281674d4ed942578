// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/convolution/depthwise.h"

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Channels that are walked together: so many that the rows of a window stay in the first-level
/// cache until the next row of windows reads them again.
template <typename T>
LOCKSTEP_INLINE std::int64_t chunk_channels(const DepthwiseShape& s) {
  constexpr std::int64_t kRowsBytes = 24 * 1024, kMinChannels = 64 / std::int64_t(sizeof(T));
  const std::int64_t fits = kRowsBytes / (s.kernel_h * s.w * std::int64_t(sizeof(T)));
  return at_least(fits / kMinChannels * kMinChannels, kMinChannels);
}

/// Calls body(first channel, channels) for each chunk.
template <typename T, typename Body>
LOCKSTEP_INLINE void for_each_chunk(const DepthwiseShape& s, Body body) {
  const std::int64_t chunk = chunk_channels<T>(s);
  for (std::int64_t c = 0; c < s.c; c += chunk) body(c, at_most(chunk, s.c - c));
}

/// Outputs of a row that are computed together. The sides of ImageNet's activations are multiples
/// of 7, and 7 sums, 7 taps and an operand fit the 16 registers of AVX2.
constexpr int kTile = 7;

struct TapRange {
  std::int64_t begin, end;
};

/// Taps of the window at `top` that lie in an image of `extent`.
LOCKSTEP_INLINE TapRange inside(std::int64_t top, std::int64_t kernel, std::int64_t extent) {
  return {at_least(-top, 0), at_most(kernel, extent - top)};
}

template <int k, int s>
struct Window {
  static constexpr int kernel = k, stride = s;
};

/// Calls body(Window) for the windows that have loops of their own, MobileNet's and ConvNeXt's.
/// False for the others.
template <typename Body>
LOCKSTEP_INLINE bool with_constants(const DepthwiseShape& s, Body body) {
  if (s.kernel_w == 3 && s.stride_w == 1) return body(Window<3, 1>{}), true;
  if (s.kernel_w == 3 && s.stride_w == 2) return body(Window<3, 2>{}), true;
  if (s.kernel_w == 7 && s.stride_w == 1) return body(Window<7, 1>{}), true;
  return false;
}

/// Asks for `count` pixels of a row that the next row of tiles will read or write: a walk over
/// tiles is too irregular for the processor to foresee.
template <int count, typename T>
LOCKSTEP_INLINE void prefetch_pixels(const T* pixel, std::int64_t channels) {
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) __builtin_prefetch(pixel + i * channels, 0, 3);
}

/// A tile of y: `count` <= kTile pixels of a row. x: the image's row of tap 0, at the column of the
/// first pixel's tap 0, which is column `left` of the image; taps: of these channels. `whole`: no
/// window crosses an edge, and count is kTile.
template <int kernel, int stride, bool whole, typename T, typename Lanes>
LOCKSTEP_INLINE void forward_tile(T* y,
                                  const T* x,
                                  const float* taps,
                                  const float* bias,
                                  const DepthwiseShape& s,
                                  TapRange rows,
                                  std::int64_t left,
                                  std::int64_t count,
                                  Lanes lanes) {
  prefetch_pixels<kTile * stride>(x + (rows.begin + s.kernel_h + s.stride_h - 1) * s.w * s.c, s.c);
  prefetch_pixels<kTile>(y + s.q * s.c, s.c);
  Vec sum[kTile];
  const Vec start = bias != nullptr ? load(bias, lanes) : zero();
#pragma GCC unroll 16
  for (int j = 0; j < kTile; ++j) sum[j] = start;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const T* row = x + r * s.w * s.c;
    Vec tap[kernel];
#pragma GCC unroll 16
    for (int k = 0; k < kernel; ++k) tap[k] = load(taps + (r * kernel + k) * s.c, lanes);
#pragma GCC unroll 16
    for (int column = 0; column < (kTile - 1) * stride + kernel; ++column) {
      if (!whole && (left + column < 0 || left + column >= s.w)) continue;
      const Vec v = load(row + column * s.c, lanes);
#pragma GCC unroll 16
      for (int k = 0; k < kernel; ++k) {
        const int j = (column - k) / stride;
        if (column >= k && (column - k) % stride == 0 && j < kTile) sum[j] = fma(v, tap[k], sum[j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < kTile; ++j)
    if (whole || j < count) store(y + j * s.c, sum[j], lanes);
}

template <int kernel, int stride, typename T>
void forward_windows(T* y,
                     const T* x,
                     const float* taps,
                     const float* bias,
                     const DepthwiseShape& s,
                     std::int64_t channels) {
  for (std::int64_t p = 0; p < s.p; ++p, y += s.q * s.c) {
    const std::int64_t top = p * s.stride_h - s.padding_h;
    const TapRange rows = inside(top, s.kernel_h, s.h);
    for (std::int64_t q = 0; q < s.q; q += kTile) {
      const std::int64_t left = q * stride - s.padding_w, count = at_most(kTile, s.q - q);
      const T* from = x + (top * s.w + left) * s.c;
      T* to = y + q * s.c;
      const bool whole = left >= 0 && count == kTile && left + (kTile - 1) * stride + kernel <= s.w;
      for_each_vec(channels, [&](std::int64_t c, auto lanes) {
        const float* start = bias != nullptr ? bias + c : nullptr;
        if (whole)
          forward_tile<kernel, stride, true>(
              to + c, from + c, taps + c, start, s, rows, left, count, lanes);
        else
          forward_tile<kernel, stride, false>(
              to + c, from + c, taps + c, start, s, rows, left, count, lanes);
      });
    }
  }
}

/// Any window: a pixel at a time.
template <typename T>
void forward_pixels(
    T* y, const T* x, const float* taps, const float* bias, const DepthwiseShape& s) {
  for (std::int64_t p = 0; p < s.p; ++p)
    for (std::int64_t q = 0; q < s.q; ++q, y += s.c) {
      const std::int64_t top = p * s.stride_h - s.padding_h, left = q * s.stride_w - s.padding_w;
      const TapRange rows = inside(top, s.kernel_h, s.h), columns = inside(left, s.kernel_w, s.w);
      for_each_vec(s.c, [&](std::int64_t c, auto lanes) {
        Vec sum = bias != nullptr ? load(bias + c, lanes) : zero();
        for (std::int64_t r = rows.begin; r < rows.end; ++r)
          for (std::int64_t k = columns.begin; k < columns.end; ++k)
            sum = fma(load(x + ((top + r) * s.w + left + k) * s.c + c, lanes),
                      load(taps + (r * s.kernel_w + k) * s.c + c, lanes),
                      sum);
        store(y + c, sum, lanes);
      });
    }
}

/// Pixels of dx that are computed together, a multiple of the stride.
template <int stride>
constexpr int kDataTile = stride == 1 ? kTile : 8;

/// A tile of dx, whose first pixel is column `left`, of which padding makes a multiple of the
/// stride. dy: the image at the column of the tap-0 window of that pixel, `first`.
template <int kernel, int stride, bool whole, typename T, typename Lanes>
LOCKSTEP_INLINE void data_tile(T* dx,
                               const T* dy,
                               const float* taps,
                               const DepthwiseShape& s,
                               std::int64_t h,
                               std::int64_t left,
                               std::int64_t first,
                               Lanes lanes) {
  constexpr int tile = kDataTile<stride>, before = (kernel - 1) / stride;
  prefetch_pixels<tile / stride>(dy + ((h + s.padding_h) / s.stride_h + 1) * s.q * s.c, s.c);
  prefetch_pixels<tile>(dx + s.w * s.c, s.c);
  Vec sum[tile];
#pragma GCC unroll 16
  for (int j = 0; j < tile; ++j) sum[j] = zero();
  for (std::int64_t r = (h + s.padding_h) % s.stride_h; r < s.kernel_h; r += s.stride_h) {
    const std::int64_t p = (h + s.padding_h - r) / s.stride_h;
    if (h + s.padding_h < r || p >= s.p) continue;
    const T* row = dy + p * s.q * s.c;
    Vec tap[kernel];
#pragma GCC unroll 16
    for (int k = 0; k < kernel; ++k) tap[k] = load(taps + (r * kernel + k) * s.c, lanes);
#pragma GCC unroll 16
    for (int i = 0; i < before + (tile - 1) / stride + 1; ++i) {
      const int column = i - before;
      if (!whole && (first + column < 0 || first + column >= s.q)) continue;
      const Vec v = load(row + column * s.c, lanes);
#pragma GCC unroll 16
      for (int k = 0; k < kernel; ++k) {
        const int j = column * stride + k;
        if (j >= 0 && j < tile) sum[j] = fma(v, tap[k], sum[j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < tile; ++j)
    if (whole || (left + j >= 0 && left + j < s.w)) store(dx + j * s.c, sum[j], lanes);
}

template <int kernel, int stride, typename T>
void data_windows(
    T* dx, const T* dy, const float* taps, const DepthwiseShape& s, std::int64_t channels) {
  constexpr int tile = kDataTile<stride>;
  const std::int64_t start = -(s.padding_w % stride);
  for (std::int64_t h = 0; h < s.h; ++h, dx += s.w * s.c)
    for (std::int64_t left = start; left < s.w; left += tile) {
      const std::int64_t first = (left + s.padding_w) / stride;
      const bool whole = left >= 0 && left + tile <= s.w && first >= (kernel - 1) / stride &&
                         first + (tile - 1) / stride < s.q;
      const T* from = dy + first * s.c;
      T* to = dx + left * s.c;
      for_each_vec(channels, [&](std::int64_t c, auto lanes) {
        if (whole)
          data_tile<kernel, stride, true>(to + c, from + c, taps + c, s, h, left, first, lanes);
        else
          data_tile<kernel, stride, false>(to + c, from + c, taps + c, s, h, left, first, lanes);
      });
    }
}

/// Calls visit(window, tap) for the windows that a position of one dimension lies in, in the order
/// of the taps.
template <typename Visit>
LOCKSTEP_INLINE void for_each_window(
    std::int64_t at, std::int64_t stride, std::int64_t kernel, std::int64_t windows, Visit visit) {
  for (std::int64_t k = at % stride; k < kernel && k <= at; k += stride)
    if ((at - k) / stride < windows) visit((at - k) / stride, k);
}

template <typename T>
void data_pixels(T* dx, const T* dy, const float* taps, const DepthwiseShape& s) {
  for (std::int64_t h = 0; h < s.h; ++h)
    for (std::int64_t w = 0; w < s.w; ++w, dx += s.c)
      for_each_vec(s.c, [&](std::int64_t c, auto lanes) {
        Vec sum = zero();
        const auto add_row = [&](std::int64_t p, std::int64_t r) {
          const auto add = [&](std::int64_t q, std::int64_t k) {
            sum = fma(load(dy + (p * s.q + q) * s.c + c, lanes),
                      load(taps + (r * s.kernel_w + k) * s.c + c, lanes),
                      sum);
          };
          for_each_window(w + s.padding_w, s.stride_w, s.kernel_w, s.q, add);
        };
        for_each_window(h + s.padding_h, s.stride_h, s.kernel_h, s.p, add_row);
        store(dx + c, sum, lanes);
      });
}

/// Adds to `sum` the products of a tile of dy, `count` pixels of a row, and `rows` rows of x. x:
/// the first row at the column of the first pixel's tap 0, which is column `left`.
template <int kernel, int stride, int rows, bool whole, typename T, typename Lanes>
LOCKSTEP_INLINE void weight_tile(Vec (&sum)[rows][kernel],
                                 const T* x,
                                 const T* dy,
                                 const DepthwiseShape& s,
                                 std::int64_t left,
                                 std::int64_t count,
                                 Lanes lanes) {
  Vec d[kTile];
#pragma GCC unroll 16
  for (int j = 0; j < kTile; ++j) d[j] = whole || j < count ? load(dy + j * s.c, lanes) : zero();
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    const T* row = x + r * s.w * s.c;
#pragma GCC unroll 16
    for (int column = 0; column < (kTile - 1) * stride + kernel; ++column) {
      if (!whole && (left + column < 0 || left + column >= s.w)) continue;
      const Vec v = load(row + column * s.c, lanes);
#pragma GCC unroll 16
      for (int k = 0; k < kernel; ++k) {
        const int j = (column - k) / stride;
        if (column >= k && (column - k) % stride == 0 && j < kTile && (whole || j < count))
          sum[r][k] = fma(v, d[j], sum[r][k]);
      }
    }
  }
}

/// Adds to `image`, the sums of tap row r and the rows - 1 after it, what a row of dy gives. x: the
/// row of tap row r.
template <int kernel, int stride, int rows, typename T, typename Lanes>
LOCKSTEP_INLINE void weight_rows(
    float* image, const T* x, const T* dy, const DepthwiseShape& s, Lanes lanes) {
  Vec sum[rows][kernel];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int k = 0; k < kernel; ++k) sum[r][k] = zero();
  for (std::int64_t q = 0; q < s.q; q += kTile) {
    const std::int64_t left = q * stride - s.padding_w, count = at_most(kTile, s.q - q);
    const T *from = x + left * s.c, *gradient = dy + q * s.c;
    if (left >= 0 && count == kTile && left + (kTile - 1) * stride + kernel <= s.w)
      weight_tile<kernel, stride, rows, true>(sum, from, gradient, s, left, count, lanes);
    else
      weight_tile<kernel, stride, rows, false>(sum, from, gradient, s, left, count, lanes);
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int k = 0; k < kernel; ++k) {
      float* to = image + (r * kernel + k) * s.c;
      store(to, load(to, lanes) + sum[r][k], lanes);
    }
}

template <int kernel, int stride, typename T>
void weight_windows(
    float* image, const T* x, const T* dy, const DepthwiseShape& s, std::int64_t channels) {
  // Rows of taps whose sums fit the registers next to a tile of dy.
  constexpr int together = kernel == 3 && kLanes == 16 ? 3 : 1;
  for (std::int64_t p = 0; p < s.p; ++p, dy += s.q * s.c) {
    const std::int64_t top = p * s.stride_h - s.padding_h;
    const TapRange rows = inside(top, s.kernel_h, s.h);
    for_each_vec(channels, [&](std::int64_t c, auto lanes) {
      std::int64_t r = rows.begin;
      for (; together > 1 && r + together <= rows.end; r += together)
        weight_rows<kernel, stride, together>(
            image + r * kernel * s.c + c, x + (top + r) * s.w * s.c + c, dy + c, s, lanes);
      for (; r < rows.end; ++r)
        weight_rows<kernel, stride, 1>(
            image + r * kernel * s.c + c, x + (top + r) * s.w * s.c + c, dy + c, s, lanes);
    });
  }
}

template <typename T>
void weight_pixels(float* image, const T* x, const T* dy, const DepthwiseShape& s) {
  for (std::int64_t p = 0; p < s.p; ++p, dy += s.q * s.c) {
    const std::int64_t top = p * s.stride_h - s.padding_h;
    const TapRange rows = inside(top, s.kernel_h, s.h);
    for (std::int64_t r = rows.begin; r < rows.end; ++r)
      for (std::int64_t k = 0; k < s.kernel_w; ++k)
        for_each_vec(s.c, [&](std::int64_t c, auto lanes) {
          Vec sum = zero();
          for (std::int64_t q = 0; q < s.q; ++q) {
            const std::int64_t column = q * s.stride_w - s.padding_w + k;
            if (column < 0 || column >= s.w) continue;
            sum = fma(load(x + ((top + r) * s.w + column) * s.c + c, lanes),
                      load(dy + q * s.c + c, lanes),
                      sum);
          }
          float* to = image + (r * s.kernel_w + k) * s.c + c;
          store(to, load(to, lanes) + sum, lanes);
        });
  }
}

}  // namespace

template <typename T>
void depthwise(T* y, const T* x, const float* taps, const float* bias, const DepthwiseShape& s) {
  for (std::int64_t n = 0; n < s.n; ++n, x += s.h * s.w * s.c, y += s.p * s.q * s.c) {
    const bool done = with_constants(s, [&](auto window) {
      using Window = decltype(window);
      for_each_chunk<T>(s, [&](std::int64_t c, std::int64_t channels) {
        forward_windows<Window::kernel, Window::stride>(
            y + c, x + c, taps + c, bias != nullptr ? bias + c : nullptr, s, channels);
      });
    });
    if (!done) forward_pixels(y, x, taps, bias, s);
  }
}

template <typename T>
void depthwise_bwd_data(T* dx, const T* dy, const float* taps, const DepthwiseShape& s) {
  for (std::int64_t n = 0; n < s.n; ++n, dx += s.h * s.w * s.c, dy += s.p * s.q * s.c) {
    const bool done = with_constants(s, [&](auto window) {
      using Window = decltype(window);
      for_each_chunk<T>(s, [&](std::int64_t c, std::int64_t channels) {
        data_windows<Window::kernel, Window::stride>(dx + c, dy + c, taps + c, s, channels);
      });
    });
    if (!done) data_pixels(dx, dy, taps, s);
  }
}

template <typename T>
void depthwise_bwd_weights(
    float* dtaps, float* image, const T* x, const T* dy, const DepthwiseShape& s) {
  const std::int64_t elems = s.tap_elems();
  for_each_vec(elems, [=](std::int64_t i, auto lanes) { store(dtaps + i, zero(), lanes); });
  for (std::int64_t n = 0; n < s.n; ++n, x += s.h * s.w * s.c, dy += s.p * s.q * s.c) {
    for_each_vec(elems, [=](std::int64_t i, auto lanes) { store(image + i, zero(), lanes); });
    const bool done = with_constants(s, [&](auto window) {
      using Window = decltype(window);
      for_each_chunk<T>(s, [&](std::int64_t c, std::int64_t channels) {
        weight_windows<Window::kernel, Window::stride>(image + c, x + c, dy + c, s, channels);
      });
    });
    if (!done) weight_pixels(image, x, dy, s);
    for_each_vec(elems, [=](std::int64_t i, auto lanes) {
      store(dtaps + i, load(dtaps + i, lanes) + load(image + i, lanes), lanes);
    });
  }
}

void transpose_taps(float* taps, const float* weight, std::int64_t channels, std::int64_t count) {
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t c = 0; c < channels; ++c) taps[t * channels + c] = weight[c * count + t];
}

void store_taps(float* dweight,
                const float* dtaps,
                std::int64_t channels,
                std::int64_t count,
                bool accumulate) {
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t t = 0; t < count; ++t) {
      const float value = dtaps[t * channels + c];
      dweight[c * count + t] = accumulate ? dweight[c * count + t] + value : value;
    }
}

LOCKSTEP_INSTANTIATE(depthwise);
LOCKSTEP_INSTANTIATE(depthwise_bwd_data);
LOCKSTEP_INSTANTIATE(depthwise_bwd_weights);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
