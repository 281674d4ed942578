// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/class_token.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"

// A class token and positions. A thread computes one group of neighbouring columns of one row and
// walks on by the grid. Bytes: x and y once, and the positions, which the caches hold, in fp32.
// Bound by memory.
namespace lockstep::cuda {
namespace {

/// y: [samples, tokens, width], the class token among the tokens.
template <typename T, int N>
__global__ void class_token_kernel(T* y,
                                   const T* x,
                                   const float* token,
                                   const float* positions,
                                   std::int64_t samples,
                                   std::int64_t tokens,
                                   std::int64_t width) {
  wait_for_earlier_work();
  const std::int64_t groups = width / N;
  for (std::int64_t item = global_thread(); item < samples * tokens * groups;
       item += all_threads()) {
    const std::int64_t row = item / groups, column = (item - row * groups) * N;
    const std::int64_t sample = row / tokens, t = row - sample * tokens;
    const Floats<N> value = t == 0 ? load_floats<N>(token + column)
                                   : load_floats<N>(x + (row - sample - 1) * width + column);
    Floats<N> sum = load_floats<N>(positions + t * width + column);
    for (int i = 0; i < N; ++i) sum.values[i] = value.values[i] + sum.values[i];
    store_floats(y + item * N, sum);
  }
}

template <typename T>
class ClassTokenKernel final : public BoundKernel {
 public:
  ClassTokenKernel(const KernelSpec& spec, const Device& device)
      : BoundKernel(device), shape_(spec.outputs[0].shape) {}
  void run(const RunState&) override {
    with_width<T>(shape_[2], [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("class_token",
             cover(shape_.elems() / kWidth),
             stream(),
             class_token_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             input(1),
             input(2),
             shape_[0],
             shape_[1],
             shape_[2]);
    });
  }

 private:
  Shape shape_;
};

}  // namespace

std::unique_ptr<Kernel> make_class_token_kernel(const ops::ClassToken&,
                                                const KernelSpec& spec,
                                                const Device& device) {
  return make_stored<ClassTokenKernel>(spec.outputs[0].dtype, spec, device);
}

}  // namespace lockstep::cuda
