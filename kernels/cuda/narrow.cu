// SPDX-License-Identifier: Apache-2.0
#include "core/ops/narrow.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"

// Copies of some tokens of each sample. A thread writes one group of neighbouring elements and
// walks on by the grid. Bytes: what is written, and what of it is not zero is read. Bound by
// memory.
namespace lockstep::cuda {
namespace {

/// Elements of a sample: of the output, of the input, and where the one lies in the other.
struct Samples {
  std::int64_t samples = 0, written = 0, read = 0, start = 0;
};

/// y[n, i] = x[n, start + i]
template <typename T, int N>
__global__ void narrow_kernel(T* y, const T* x, Samples s) {
  wait_for_earlier_work();
  for (std::int64_t item = global_thread(); item < s.samples * s.written / N;
       item += all_threads()) {
    const std::int64_t sample = item * N / s.written, i = item * N - sample * s.written;
    store_group(y + item * N, load_group<N>(x + sample * s.read + s.start + i));
  }
}

/// dx[n, start + i] = dy[n, i]; zero elsewhere
template <typename T, int N>
__global__ void narrow_bwd_kernel(T* dx, const T* dy, Samples s) {
  wait_for_earlier_work();
  for (std::int64_t item = global_thread(); item < s.samples * s.written / N;
       item += all_threads()) {
    const std::int64_t sample = item * N / s.written, i = item * N - sample * s.written - s.start;
    Group<T, N> group;
    if (i >= 0 && i < s.read) {
      group = load_group<N>(dy + sample * s.read + i);
    } else {
      for (int k = 0; k < N; ++k) group.values[k] = from_float<T>(0);
    }
    store_group(dx + item * N, group);
  }
}

Samples samples_of(const KernelSpec& spec, std::int64_t start) {
  const Shape &y = spec.outputs[0].shape, &x = spec.inputs[0].shape;
  return {y[0], y[1] * y[2], x[1] * x[2], start * y[2]};
}

template <typename T>
class NarrowKernel final : public BoundKernel {
 public:
  NarrowKernel(bool backward, std::int64_t start, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        backward_(backward),
        samples_(samples_of(spec, start)),
        width_(spec.outputs[0].shape[2]) {}
  void run(const RunState&) override {
    with_width<T>(width_, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch(backward_ ? "narrow_bwd" : "narrow",
             cover(samples_.samples * samples_.written / kWidth),
             stream(),
             backward_ ? narrow_bwd_kernel<T, kWidth> : narrow_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             samples_);
    });
  }

 private:
  bool backward_;
  Samples samples_;
  std::int64_t width_;
};

}  // namespace

std::unique_ptr<Kernel> make_narrow_kernel(const ops::Narrow& op,
                                           const KernelSpec& spec,
                                           const Device& device) {
  return make_stored<NarrowKernel>(spec.inputs[0].dtype, false, op.start(), spec, device);
}

std::unique_ptr<Kernel> make_narrow_bwd_kernel(const ops::NarrowBwd& op,
                                               const KernelSpec& spec,
                                               const Device& device) {
  return make_stored<NarrowKernel>(spec.inputs[0].dtype, true, op.start(), spec, device);
}

}  // namespace lockstep::cuda
