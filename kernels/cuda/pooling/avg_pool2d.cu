// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/avg_pool2d.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/pooling/pool_windows.cuh"

// Average pooling. A thread computes groups of neighbouring channels (16 bytes where the channels
// allow), each of one output position forward, of one input position backward, where it adds over
// the windows that the position lies in, in order. Bytes: x and y once; windows that overlap meet
// in the caches. Bound by memory.
namespace lockstep::cuda {
namespace {

/// `scale` times the sum of from[row * width + column, :] over both ranges, in order.
template <int N, typename T>
__device__ inline Floats<N> scaled_sum(
    const T* from, std::int64_t width, int c, PoolRange rows, PoolRange columns, float scale) {
  Floats<N> sum{};
  for (int row = rows.begin; row < rows.end; ++row)
    for (int column = columns.begin; column < columns.end; ++column) {
      const Floats<N> v = load_floats<N>(from + (row * width + column) * c);
      for (int i = 0; i < N; ++i) sum.values[i] += v.values[i];
    }
  for (int i = 0; i < N; ++i) sum.values[i] *= scale;
  return sum;
}

template <typename T, int N>
__global__ void avg_pool_kernel(T* y, const T* x, PoolShape s, Divisor groups, float scale) {
  wait_for_earlier_work();
  for_each_in_lines<N>(
      s.y.output,
      s.x.output,
      s.c,
      groups,
      [&](std::int64_t n, int p, int q, int channel, std::int64_t at) {
        const T* const image = x + n * s.y.input * s.x.input * s.c + channel;
        store_floats(y + at,
                     scaled_sum<N>(image, s.x.input, s.c, covered(p, s.y), covered(q, s.x), scale));
      });
}

template <typename T, int N>
__global__ void avg_pool_bwd_kernel(T* dx, const T* dy, PoolShape s, Divisor groups, float scale) {
  wait_for_earlier_work();
  for_each_in_lines<N>(
      s.y.input,
      s.x.input,
      s.c,
      groups,
      [&](std::int64_t n, int h, int w, int channel, std::int64_t at) {
        const T* const image = dy + n * s.y.output * s.x.output * s.c + channel;
        store_floats(
            dx + at,
            scaled_sum<N>(image, s.x.output, s.c, windows(h, s.y), windows(w, s.x), scale));
      });
}

float scale_of(const PoolShape& s) { return 1.0f / float(s.y.kernel * s.x.kernel); }

template <typename T>
class AvgPool2dKernel final : public BoundKernel {
 public:
  AvgPool2dKernel(const PoolShape& shape, const Device& device)
      : BoundKernel(device), shape_(shape) {}
  void run(const RunState&) override {
    with_width<T>(shape_.c, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("avg_pool2d",
             cover_lines(shape_.n, shape_.y.output, shape_.x.output * (shape_.c / kWidth)),
             stream(),
             avg_pool_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             shape_,
             Divisor(shape_.c / kWidth),
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
             cover_lines(shape_.n, shape_.y.input, shape_.x.input * (shape_.c / kWidth)),
             stream(),
             avg_pool_bwd_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             shape_,
             Divisor(shape_.c / kWidth),
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
