// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/ops/pooling/max_pool2d.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/pooling/pool_windows.cuh"

// Max pooling. A thread computes groups of neighbouring channels (16 bytes where the channels
// allow), each of one output position forward, of one input position backward, where it adds over
// the windows that the position lies in: nothing is scattered. Bytes: x, y and the winners once;
// windows that overlap meet in the caches. Bound by memory.
namespace lockstep::cuda {
namespace {

template <typename T, int N>
__global__ void max_pool_kernel(
    T* y, std::uint8_t* winner, const T* x, PoolShape s, Divisor groups) {
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
        Floats<N> best;
        int position[N];
        for (int i = 0; i < N; ++i) {
          best.values[i] = -INFINITY;
          position[i] = (rows.begin - top) * s.x.kernel + columns.begin - left;
        }
        for (int row = rows.begin; row < rows.end; ++row)
          for (int column = columns.begin; column < columns.end; ++column) {
            const Floats<N> v =
                load_floats<N>(image + (std::int64_t{row} * s.x.input + column) * s.c);
            const int here = (row - top) * s.x.kernel + column - left;
            for (int i = 0; i < N; ++i) {
              // PyTorch's rule: the first of equal values wins, and the first NaN over everything.
              const float b = best.values[i];
              const bool larger = !(v.values[i] <= b) && b == b;
              best.values[i] = larger ? v.values[i] : b;
              position[i] = larger ? here : position[i];
            }
          }
        Group<std::uint8_t, N> winners;
        for (int i = 0; i < N; ++i) winners.values[i] = std::uint8_t(position[i]);
        store_floats(y + at, best);
        store_group(winner + at, winners);
      });
}

template <typename T, int N>
__global__ void __launch_bounds__(kBlock) max_pool_bwd_kernel(
    T* dx, const T* dy, const std::uint8_t* winner, PoolShape s, Divisor groups) {
  wait_for_earlier_work();
  for_each_in_lines<N>(s.y.input,
                       s.x.input,
                       s.c,
                       groups,
                       [&](std::int64_t n, int h, int w, int channel, std::int64_t at) {
                         const PoolRange rows = windows(h, s.y), columns = windows(w, s.x);
                         const std::int64_t image = n * s.y.output * s.x.output * s.c + channel;
                         Floats<N> sum{};
                         for (int p = rows.begin; p < rows.end; ++p)
                           for (int q = columns.begin; q < columns.end; ++q) {
                             const std::int64_t window =
                                 image + (std::int64_t{p} * s.x.output + q) * s.c;
                             const int here = (h - p * s.y.stride + s.y.padding) * s.x.kernel + w -
                                              q * s.x.stride + s.x.padding;
                             const Group<std::uint8_t, N> winners = load_group<N>(winner + window);
                             const Floats<N> d = load_floats<N>(dy + window);
                             for (int i = 0; i < N; ++i)
                               sum.values[i] += winners.values[i] == here ? d.values[i] : 0.0f;
                           }
                         store_floats(dx + at, sum);
                       });
}

template <typename T>
class MaxPool2dKernel final : public BoundKernel {
 public:
  MaxPool2dKernel(const PoolShape& shape, const Device& device)
      : BoundKernel(device), shape_(shape) {}
  void run(const RunState&) override {
    with_width<T>(shape_.c, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("max_pool2d",
             cover_lines(shape_.n, shape_.y.output, shape_.x.output * (shape_.c / kWidth)),
             stream(),
             max_pool_kernel<T, kWidth>,
             output<T>(0),
             output<std::uint8_t>(1),
             input<T>(0),
             shape_,
             Divisor(shape_.c / kWidth));
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
      launch("max_pool2d_bwd",
             cover_lines(shape_.n, shape_.y.input, shape_.x.input * (shape_.c / kWidth)),
             stream(),
             max_pool_bwd_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             input<std::uint8_t>(1),
             shape_,
             Divisor(shape_.c / kWidth));
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
