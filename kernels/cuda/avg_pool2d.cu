// SPDX-License-Identifier: Apache-2.0
#include "core/ops/avg_pool2d.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/pool_windows.cuh"

// Average pooling. A thread computes one group of neighbouring channels (16 bytes where rows of
// channels allow) of one output position forward, of one input position backward, where it adds
// over the windows that it lies in, in order. Bytes: x and y once; windows that overlap meet in the
// caches. Bound by memory.
namespace lockstep::cuda {
namespace {

/// `scale` times the sum of from[row * width + column, :] over both ranges, in order.
template <int N, typename T>
__device__ inline Floats<N> scaled_sum(const T* from,
                                       std::int64_t width,
                                       std::int64_t c,
                                       PoolRange rows,
                                       PoolRange columns,
                                       float scale) {
  Floats<N> sum{};
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    for (std::int64_t column = columns.begin; column < columns.end; ++column) {
      const Floats<N> v = load_floats<N>(from + (row * width + column) * c);
      for (int i = 0; i < N; ++i) sum.values[i] += v.values[i];
    }
  for (int i = 0; i < N; ++i) sum.values[i] *= scale;
  return sum;
}

template <typename T, int N>
__global__ void avg_pool_kernel(T* y, const T* x, PoolShape s, float scale) {
  const std::int64_t groups = s.c / N;
  for (std::int64_t item = global_thread(); item < s.n * s.p * s.q * groups;
       item += all_threads()) {
    const PoolPlace at = pool_place(item, s.p, s.q, groups);
    const PoolRange rows = covered(at.row, s.stride_h, s.padding_h, s.kernel_h, s.h);
    const PoolRange columns = covered(at.column, s.stride_w, s.padding_w, s.kernel_w, s.w);
    const T* const image = x + at.n * s.h * s.w * s.c + at.group * N;
    store_floats(y + item * N, scaled_sum<N>(image, s.w, s.c, rows, columns, scale));
  }
}

template <typename T, int N>
__global__ void avg_pool_bwd_kernel(T* dx, const T* dy, PoolShape s, float scale) {
  const std::int64_t groups = s.c / N;
  for (std::int64_t item = global_thread(); item < s.n * s.h * s.w * groups;
       item += all_threads()) {
    const PoolPlace at = pool_place(item, s.h, s.w, groups);
    const PoolRange rows = windows(at.row, s.stride_h, s.padding_h, s.kernel_h, s.p);
    const PoolRange columns = windows(at.column, s.stride_w, s.padding_w, s.kernel_w, s.q);
    const T* const image = dy + at.n * s.p * s.q * s.c + at.group * N;
    store_floats(dx + item * N, scaled_sum<N>(image, s.q, s.c, rows, columns, scale));
  }
}

float scale_of(const PoolShape& s) { return 1.0f / float(s.kernel_h * s.kernel_w); }

template <typename T>
class AvgPool2dKernel final : public BoundKernel {
 public:
  AvgPool2dKernel(const PoolShape& shape, const Device& device)
      : BoundKernel(device), shape_(shape) {}
  void run(const RunState&) override {
    with_width<T>(shape_.c, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("avg_pool2d",
             cover(shape_.n * shape_.p * shape_.q * (shape_.c / kWidth)),
             stream(),
             avg_pool_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             shape_,
             scale_of(shape_));
    });
  }

 private:
  PoolShape shape_;
};

template <typename T>
class AvgPool2dBwdKernel final : public BoundKernel {
 public:
  AvgPool2dBwdKernel(const PoolShape& shape, const Device& device)
      : BoundKernel(device), shape_(shape) {}
  void run(const RunState&) override {
    with_width<T>(shape_.c, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("avg_pool2d_bwd",
             cover(shape_.n * shape_.h * shape_.w * (shape_.c / kWidth)),
             stream(),
             avg_pool_bwd_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             shape_,
             scale_of(shape_));
    });
  }

 private:
  PoolShape shape_;
};

}  // namespace

std::unique_ptr<Kernel> make_avg_pool2d_kernel(const ops::AvgPool2d& op,
                                               const KernelSpec& spec,
                                               const Device& device) {
  return make_stored<AvgPool2dKernel>(
      spec.inputs[0].dtype,
      pool_shape(op.attrs(), spec.inputs[0].shape, spec.outputs[0].shape),
      device);
}

std::unique_ptr<Kernel> make_avg_pool2d_bwd_kernel(const ops::AvgPool2dBwd& op,
                                                   const KernelSpec& spec,
                                                   const Device& device) {
  return make_stored<AvgPool2dBwdKernel>(
      spec.inputs[0].dtype,
      pool_shape(op.attrs(), spec.outputs[0].shape, spec.inputs[0].shape),
      device);
}

}  // namespace lockstep::cuda
