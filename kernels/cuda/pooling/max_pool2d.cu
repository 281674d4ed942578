// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <type_traits>

#include "core/ops/pooling/max_pool2d.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/pooling/pool_windows.cuh"

// Max pooling. A thread computes groups of neighbouring channels (16 bytes where the channels
// allow), each of one output position forward, of one input position backward, where it adds over
// the windows that the position lies in: nothing is scattered. Bytes: x, y and the winners once;
// windows that overlap meet in the caches. Bound by memory, and by its
// latency where a window's elements are read one after another: those of the usual extents are all
// on their way at once.
namespace lockstep::cuda {
namespace {

/// Calls `body(at, row, column)` for the rows and columns of a rectangle, `at` counting from 0.
/// With `extent` > 0 it has at most so many of each, and the loops can be unrolled.
template <int extent, typename Body>
__device__ inline void for_each_in(PoolRange rows, PoolRange columns, Body body) {
  if constexpr (extent > 0) {
#pragma unroll
    for (int i = 0; i < extent; ++i)
#pragma unroll
      for (int j = 0; j < extent; ++j)
        if (rows.begin + i < rows.end && columns.begin + j < columns.end)
          body(i * extent + j, rows.begin + i, columns.begin + j);
  } else {
    for (int row = rows.begin; row < rows.end; ++row)
      for (int column = columns.begin; column < columns.end; ++column) body(0, row, column);
  }
}

/// With `extent` > 0, windows have at most so many rows and columns, all of which are on their way
/// before the first is looked at.
template <typename T, int N, int extent>
__global__ void __launch_bounds__(kBlock)
    max_pool_kernel(T* y, std::uint8_t* winner, const T* x, PoolShape s, Divisor groups) {
  wait_for_earlier_work();
  for_each_in_lines<N>(
      s.y.output,
      s.x.output,
      s.c,
      groups,
      [&](std::int64_t n, int p, int q, int channel, std::int64_t at) {
        const PoolRange rows = covered(p, s.y), columns = covered(q, s.x);
        const int top = p * s.y.stride - s.y.padding, left = q * s.x.stride - s.x.padding;
        const T* const image = x + n * s.y.input * s.x.input * s.c + channel;
        const auto element = [&](int row, int column) {
          return load_group<N>(image + (std::int64_t{row} * s.x.input + column) * s.c);
        };
        [[maybe_unused]] Group<T, N> loaded[extent > 0 ? extent * extent : 1];
        if constexpr (extent > 0)
          for_each_in<extent>(
              rows, columns, [&](int i, int row, int column) { loaded[i] = element(row, column); });
        Floats<N> best;
        int position[N];
        for (int i = 0; i < N; ++i) {
          best.values[i] = -INFINITY;
          position[i] = (rows.begin - top) * s.x.kernel + columns.begin - left;
        }
        for_each_in<extent>(rows, columns, [&]([[maybe_unused]] int k, int row, int column) {
          Group<T, N> v;
          if constexpr (extent > 0)
            v = loaded[k];
          else
            v = element(row, column);
          const int here = (row - top) * s.x.kernel + column - left;
          for (int i = 0; i < N; ++i) {
            // PyTorch's rule: the first of equal values wins, and the first NaN over everything.
            const float a = to_float(v.values[i]), b = best.values[i];
            const bool larger = !(a <= b) && b == b;
            best.values[i] = larger ? a : b;
            position[i] = larger ? here : position[i];
          }
        });
        Group<std::uint8_t, N> winners;
        for (int i = 0; i < N; ++i) winners.values[i] = std::uint8_t(position[i]);
        store_floats(y + at, best);
        store_group(winner + at, winners);
      });
}

/// With `extent` > 0, a position lies in the windows of at most so many rows and columns.
template <typename T, int N, int extent>
__global__ void __launch_bounds__(kBlock) max_pool_bwd_kernel(
    T* dx, const T* dy, const std::uint8_t* winner, PoolShape s, Divisor groups) {
  wait_for_earlier_work();
  struct Window {
    Group<std::uint8_t, N> winners;
    Group<T, N> dy;
  };
  for_each_in_lines<N>(
      s.y.input,
      s.x.input,
      s.c,
      groups,
      [&](std::int64_t n, int h, int w, int channel, std::int64_t at) {
        const PoolRange rows = windows(h, s.y), columns = windows(w, s.x);
        const std::int64_t image = n * s.y.output * s.x.output * s.c + channel;
        const auto window = [&](int p, int q) {
          const std::int64_t from = image + (std::int64_t{p} * s.x.output + q) * s.c;
          return Window{load_group<N>(winner + from), load_group<N>(dy + from)};
        };
        [[maybe_unused]] Window loaded[extent > 0 ? extent * extent : 1];
        if constexpr (extent > 0)
          for_each_in<extent>(
              rows, columns, [&](int i, int p, int q) { loaded[i] = window(p, q); });
        Floats<N> sum{};
        for_each_in<extent>(rows, columns, [&]([[maybe_unused]] int k, int p, int q) {
          Window from;
          if constexpr (extent > 0)
            from = loaded[k];
          else
            from = window(p, q);
          const int here =
              (h - p * s.y.stride + s.y.padding) * s.x.kernel + w - q * s.x.stride + s.x.padding;
          for (int i = 0; i < N; ++i)
            sum.values[i] += from.winners.values[i] == here ? to_float(from.dy.values[i]) : 0.0f;
        });
        store_floats(dx + at, sum);
      });
}

/// Calls `body` with `extent` as a constant where it is 1 to `most`, and with 0 otherwise.
template <int most, typename Body>
void with_extent(int extent, Body body) {
  if constexpr (most == 0) {
    body(std::integral_constant<int, 0>{});
  } else if (extent == most) {
    body(std::integral_constant<int, most>{});
  } else {
    with_extent<most - 1>(extent, body);
  }
}

/// The larger of both directions: elements of a window, or windows that an element lies in.
int window_extent(const PoolShape& s) { return std::max(s.y.kernel, s.x.kernel); }
int windows_of_element(const PoolShape& s) {
  const auto of = [](const PoolAxis& axis) { return int(ceil_div(axis.kernel, axis.stride)); };
  return std::max(of(s.y), of(s.x));
}

template <typename T>
class MaxPool2dKernel final : public BoundKernel {
 public:
  MaxPool2dKernel(const PoolShape& shape, const Device& device)
      : BoundKernel(device), shape_(shape) {}
  void run(const RunState&) override {
    with_width<T>(shape_.c, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      with_extent<3>(window_extent(shape_), [&](auto extent) {
        launch("max_pool2d",
               cover_lines(shape_.n, shape_.y.output, shape_.x.output * (shape_.c / kWidth)),
               stream(),
               max_pool_kernel<T, kWidth, decltype(extent)::value>,
               output<T>(0),
               output<std::uint8_t>(1),
               input<T>(0),
               shape_,
               Divisor(shape_.c / kWidth));
      });
    });
  }

 private:
  PoolShape shape_;
};

template <typename T>
class MaxPool2dBwdKernel final : public BoundKernel {
 public:
  MaxPool2dBwdKernel(const PoolShape& shape, const Device& device)
      : BoundKernel(device), shape_(shape) {}
  void run(const RunState&) override {
    with_width<T>(shape_.c, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      with_extent<2>(windows_of_element(shape_), [&](auto extent) {
        launch("max_pool2d_bwd",
               cover_lines(shape_.n, shape_.y.input, shape_.x.input * (shape_.c / kWidth)),
               stream(),
               max_pool_bwd_kernel<T, kWidth, decltype(extent)::value>,
               output<T>(0),
               input<T>(0),
               input<std::uint8_t>(1),
               shape_,
               Divisor(shape_.c / kWidth));
      });
    });
  }

 private:
  PoolShape shape_;
};

}  // namespace

std::unique_ptr<Kernel> make_max_pool2d_kernel(const ops::MaxPool2d& op,
                                               const KernelSpec& spec,
                                               const Device& device) {
  return make_stored<MaxPool2dKernel>(
      spec.inputs[0].dtype,
      pool_shape(op.attrs(), spec.inputs[0].shape, spec.outputs[0].shape),
      device);
}

std::unique_ptr<Kernel> make_max_pool2d_bwd_kernel(const ops::MaxPool2dBwd& op,
                                                   const KernelSpec& spec,
                                                   const Device& device) {
  return make_stored<MaxPool2dBwdKernel>(
      spec.inputs[0].dtype,
      pool_shape(op.attrs(), spec.outputs[0].shape, spec.inputs[0].shape),
      device);
}

}  // namespace lockstep::cuda
