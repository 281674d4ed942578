// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/base/random.h"
#include "core/ops/dropout.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/step/step_counters.cuh"

// Dropout. Four neighbouring elements of a sample share one call of Philox, about 80 instructions.
// A thread computes 16 bytes of the output where samples are multiples of that, otherwise the
// elements of one call, and walks on by the grid. Bytes: x and y once. Bound by memory; in bf16
// the random words take nearly as long.
namespace lockstep::cuda {
namespace {

constexpr int kWords = 4;  // of one call of Philox

/// The random words of one run: see ops::Dropout.
struct DropoutStream {
  std::uint64_t key = 0;
  LaunchCounters counters;
  std::uint32_t threshold = 0;  ///< words below it are dropped
  float scale = 1.0f;           ///< of what is kept

  /// Words of elements [4 block, 4 block + 4) of sample n of the micro-batch.
  __device__ RandomBlock words(std::int64_t n, std::int64_t block) const {
    return philox(key,
                  counters.step(),
                  (counters.first_sample() + std::uint64_t(n)) << 32 | std::uint64_t(block));
  }
  __device__ float apply(float x, std::uint32_t word) const {
    return word >= threshold ? x * scale : 0.0f;
  }
};

/// sample_elems is a multiple of N, N of kWords.
template <typename T, int N>
__global__ void dropout_packs_kernel(
    T* y, const T* x, std::int64_t samples, std::int64_t sample_elems, DropoutStream stream) {
  wait_for_earlier_work();
  const std::int64_t sample_packs = sample_elems / N;
  for (std::int64_t p = global_thread(); p < samples * sample_packs; p += all_threads()) {
    const std::int64_t n = p / sample_packs, block = (p - n * sample_packs) * (N / kWords);
    Floats<N> values = load_floats<N>(x + p * N);
    for (int b = 0; b < N / kWords; ++b) {
      const RandomBlock words = stream.words(n, block + b);
      for (int i = 0; i < kWords; ++i) {
        float& value = values.values[b * kWords + i];
        value = stream.apply(value, words[std::size_t(i)]);
      }
    }
    store_floats(y + p * N, values);
  }
}

/// Any sample_elems.
template <typename T>
__global__ void dropout_blocks_kernel(
    T* y, const T* x, std::int64_t samples, std::int64_t sample_elems, DropoutStream stream) {
  wait_for_earlier_work();
  const std::int64_t sample_blocks = ceil_div(sample_elems, kWords);
  for (std::int64_t b = global_thread(); b < samples * sample_blocks; b += all_threads()) {
    const std::int64_t n = b / sample_blocks, block = b - n * sample_blocks;
    const RandomBlock words = stream.words(n, block);
    for (int i = 0; i < kWords; ++i) {
      const std::int64_t e = block * kWords + i, at = n * sample_elems + e;
      if (e < sample_elems)
        y[at] = from_float<T>(stream.apply(to_float(x[at]), words[std::size_t(i)]));
    }
  }
}

/// Element 0 of a sample decides for all. sample_elems is a multiple of N.
template <typename T, int N>
__global__ void dropout_samples_kernel(
    T* y, const T* x, std::int64_t samples, std::int64_t sample_elems, DropoutStream stream) {
  wait_for_earlier_work();
  const std::int64_t sample_groups = sample_elems / N;
  for (std::int64_t g = global_thread(); g < samples * sample_groups; g += all_threads()) {
    const std::uint32_t word = stream.words(g / sample_groups, 0)[0];
    Floats<N> values = load_floats<N>(x + g * N);
    for (int i = 0; i < N; ++i) values.values[i] = stream.apply(values.values[i], word);
    store_floats(y + g * N, values);
  }
}

template <typename T>
class DropoutKernel final : public BoundKernel {
 public:
  /// rate in [0, 1) has 24 bits, so the threshold is below 2^32.
  DropoutKernel(const ops::Dropout& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        path_(spec.path),
        whole_samples_(op.whole_samples()),
        samples_(spec.inputs[0].shape[0]) {
    sample_elems_ = samples_ == 0 ? 0 : spec.inputs[0].elems() / samples_;
    stream_.threshold = std::uint32_t(std::llround(double(op.rate()) * 0x1p32));
    stream_.scale = float(1.0 / (1.0 - double(op.rate())));
  }

  void run(const RunState& state) override {
    constexpr int kPack = Pack<T>::kElems;
    stream_.key = random_key(state.seed, path_);
    stream_.counters = LaunchCounters(state);
    if (whole_samples_)
      with_width<T>(sample_elems_, [&](auto width) {
        constexpr int kWidth = decltype(width)::value;
        start(dropout_samples_kernel<T, kWidth>, sample_elems_ / kWidth);
      });
    else if (sample_elems_ % kPack == 0)
      start(dropout_packs_kernel<T, kPack>, sample_elems_ / kPack);
    else
      start(dropout_blocks_kernel<T>, ceil_div(sample_elems_, kWords));
  }

 private:
  using Loop = void (*)(T*, const T*, std::int64_t, std::int64_t, DropoutStream);

  void start(Loop kernel, std::int64_t sample_items) const {
    launch("dropout",
           cover(samples_ * sample_items),
           stream(),
           kernel,
           output<T>(0),
           input<T>(0),
           samples_,
           sample_elems_,
           stream_);
  }

  std::string path_;
  bool whole_samples_;
  std::int64_t samples_;
  std::int64_t sample_elems_ = 0;
  DropoutStream stream_;
};

}  // namespace

std::unique_ptr<Kernel> make_dropout_kernel(const ops::Dropout& op,
                                            const KernelSpec& spec,
                                            const Device& device) {
  return make_stored<DropoutKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
