// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/global_avg_pool.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"

// Means over the positions of an image. A thread takes one group of neighbouring channels (16 bytes
// where rows of channels allow): forward of one sample, whose positions it adds in order, backward
// of one position. Bytes: x or dx once. Bound by memory; forward by its latency where samples and
// channels are few.
namespace lockstep::cuda {
namespace {

struct Extents {
  explicit Extents(const Shape& x) : n(x[0]), positions(x[1] * x[2]), c(x[3]) {}
  std::int64_t n, positions, c;
  float scale = 1.0f / float(positions);
};

template <typename T, int N>
__global__ void mean_kernel(T* y, const T* x, Extents e) {
  wait_for_earlier_work();
  const std::int64_t groups = e.c / N;
  for (std::int64_t item = global_thread(); item < e.n * groups; item += all_threads()) {
    const std::int64_t n = item / groups, group = item - n * groups;
    const T* const sample = x + n * e.positions * e.c + group * N;
    Floats<N> sum{};
#pragma unroll 8
    for (std::int64_t at = 0; at < e.positions; ++at) {
      const Floats<N> v = load_floats<N>(sample + at * e.c);
      for (int i = 0; i < N; ++i) sum.values[i] += v.values[i];
    }
    for (int i = 0; i < N; ++i) sum.values[i] *= e.scale;
    store_floats(y + item * N, sum);
  }
}

template <typename T, int N>
__global__ void spread_kernel(T* dx, const T* dy, Extents e) {
  wait_for_earlier_work();
  const std::int64_t groups = e.c / N;
  for (std::int64_t item = global_thread(); item < e.n * e.positions * groups;
       item += all_threads()) {
    const std::int64_t position = item / groups, group = item - position * groups;
    Floats<N> d = load_floats<N>(dy + position / e.positions * e.c + group * N);
    for (int i = 0; i < N; ++i) d.values[i] *= e.scale;
    store_floats(dx + item * N, d);
  }
}

template <typename T>
class GlobalAvgPoolKernel final : public BoundKernel {
 public:
  GlobalAvgPoolKernel(const Shape& x, const Device& device) : BoundKernel(device), x_(x) {}
  void run(const RunState&) override {
    with_width<T>(x_.c, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("global_avg_pool",
             cover(x_.n * (x_.c / kWidth)),
             stream(),
             mean_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             x_);
    });
  }

 private:
  Extents x_;
};

template <typename T>
class GlobalAvgPoolBwdKernel final : public BoundKernel {
 public:
  GlobalAvgPoolBwdKernel(const Shape& x, const Device& device) : BoundKernel(device), x_(x) {}
  void run(const RunState&) override {
    with_width<T>(x_.c, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("global_avg_pool_bwd",
             cover(x_.n * x_.positions * (x_.c / kWidth)),
             stream(),
             spread_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             x_);
    });
  }

 private:
  Extents x_;
};

}  // namespace

std::unique_ptr<Kernel> make_global_avg_pool_kernel(const ops::GlobalAvgPool&,
                                                    const KernelSpec& spec,
                                                    const Device& device) {
  return make_stored<GlobalAvgPoolKernel>(spec.inputs[0].dtype, spec.inputs[0].shape, device);
}

std::unique_ptr<Kernel> make_global_avg_pool_bwd_kernel(const ops::GlobalAvgPoolBwd&,
                                                        const KernelSpec& spec,
                                                        const Device& device) {
  return make_stored<GlobalAvgPoolBwdKernel>(spec.inputs[0].dtype, spec.outputs[0].shape, device);
}

}  // namespace lockstep::cuda
