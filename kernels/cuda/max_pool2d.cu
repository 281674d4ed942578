// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/ops/max_pool2d.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/pool_windows.cuh"

// Max pooling. A thread computes one group of neighbouring channels (16 bytes where rows of
// channels allow) of one output position forward, of one input position backward, where it adds
// over the windows that it lies in: nothing is scattered. Bytes: x, y and the winners once; windows
// that overlap meet in the caches. Bound by memory.
namespace lockstep::cuda {
namespace {

template <typename T, int N>
__global__ void max_pool_kernel(T* y, std::uint8_t* winner, const T* x, PoolShape s) {
  const std::int64_t groups = s.c / N;
  for (std::int64_t item = global_thread(); item < s.n * s.p * s.q * groups;
       item += all_threads()) {
    const PoolPlace at = pool_place(item, s.p, s.q, groups);
    const PoolRange rows = covered(at.row, s.stride_h, s.padding_h, s.kernel_h, s.h);
    const PoolRange columns = covered(at.column, s.stride_w, s.padding_w, s.kernel_w, s.w);
    const std::int64_t top = at.row * s.stride_h - s.padding_h;
    const std::int64_t left = at.column * s.stride_w - s.padding_w;
    const int first = int((rows.begin - top) * s.kernel_w + columns.begin - left);
    Floats<N> best;
    int position[N];
    for (int i = 0; i < N; ++i) {
      best.values[i] = -INFINITY;
      position[i] = first;
    }
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const Floats<N> v =
            load_floats<N>(x + ((at.n * s.h + row) * s.w + column) * s.c + at.group * N);
        const int here = int((row - top) * s.kernel_w + column - left);
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
    store_floats(y + item * N, best);
    store_group(winner + item * N, winners);
  }
}

template <typename T, int N>
__global__ void max_pool_bwd_kernel(T* dx, const T* dy, const std::uint8_t* winner, PoolShape s) {
  const std::int64_t groups = s.c / N;
  for (std::int64_t item = global_thread(); item < s.n * s.h * s.w * groups;
       item += all_threads()) {
    const PoolPlace at = pool_place(item, s.h, s.w, groups);
    const PoolRange rows = windows(at.row, s.stride_h, s.padding_h, s.kernel_h, s.p);
    const PoolRange columns = windows(at.column, s.stride_w, s.padding_w, s.kernel_w, s.q);
    Floats<N> sum{};
    for (std::int64_t p = rows.begin; p < rows.end; ++p)
      for (std::int64_t q = columns.begin; q < columns.end; ++q) {
        const std::int64_t window = ((at.n * s.p + p) * s.q + q) * s.c + at.group * N;
        const int here = int((at.row - p * s.stride_h + s.padding_h) * s.kernel_w +
                             (at.column - q * s.stride_w + s.padding_w));
        const Group<std::uint8_t, N> winners = load_group<N>(winner + window);
        const Floats<N> d = load_floats<N>(dy + window);
        for (int i = 0; i < N; ++i) sum.values[i] += winners.values[i] == here ? d.values[i] : 0.0f;
      }
    store_floats(dx + item * N, sum);
  }
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
             cover(shape_.n * shape_.p * shape_.q * (shape_.c / kWidth)),
             stream(),
             max_pool_kernel<T, kWidth>,
             output<T>(0),
             output<std::uint8_t>(1),
             input<T>(0),
             shape_);
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
             cover(shape_.n * shape_.h * shape_.w * (shape_.c / kWidth)),
             stream(),
             max_pool_bwd_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             input<std::uint8_t>(1),
             shape_);
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
