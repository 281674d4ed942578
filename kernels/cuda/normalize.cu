// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/ops/normalize.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"

// Per-channel affine map. The factors travel as arguments of the launch, since a kernel has no
// memory of its own that outlives a run. Few channels: a block copies them to shared memory, its
// threads take eight elements at a time and walk on by the grid. Many: one launch for each
// kMaxChannels of them, a thread an element; its part of a row need not start at a multiple of 16
// bytes, and images, which are what is normalised, have a few channels: it is not made faster.
// Bytes: x and y once. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr int kMaxChannels = 256;
constexpr int kGroup = 8;

struct Factors {
  float scale[kMaxChannels], shift[kMaxChannels];
};

/// Channels repeat every `period` elements; period <= kMaxChannels.
template <typename Out, typename In>
__global__ void normalize_kernel(
    Out* y, const In* x, std::int64_t elems, int period, const __grid_constant__ Factors factors) {
  wait_for_earlier_work();
  float* const scale = dynamic_shared<float>();
  float* const shift = scale + period;
  for (int c = int(threadIdx.x); c < period; c += int(blockDim.x)) {
    scale[c] = factors.scale[c];
    shift[c] = factors.shift[c];
  }
  __syncthreads();
  const std::int64_t groups = elems / kGroup;
  for (std::int64_t g = global_thread(); g < groups; g += all_threads()) {
    const Group<In, kGroup> loaded = load_group<kGroup>(x + g * kGroup);
    int c = int(g * kGroup % period);
    Floats<kGroup> result;
    for (int i = 0; i < kGroup; ++i) {
      result.values[i] = fmaf(float(loaded.values[i]), scale[c], shift[c]);
      if (++c == period) c = 0;
    }
    store_floats(y + g * kGroup, result);
  }
  for (std::int64_t i = groups * kGroup + global_thread(); i < elems; i += all_threads()) {
    const int c = int(i % period);
    y[i] = from_float<Out>(fmaf(float(x[i]), scale[c], shift[c]));
  }
}

/// Channels [first, first + count) of `channels`.
template <typename Out, typename In>
__global__ void normalize_channels_kernel(Out* y,
                                          const In* x,
                                          std::int64_t rows,
                                          std::int64_t channels,
                                          std::int64_t first,
                                          int count,
                                          const Factors factors) {
  wait_for_earlier_work();
  for (std::int64_t item = global_thread(); item < rows * count; item += all_threads()) {
    const int c = int(item % count);
    const std::int64_t i = item / count * channels + first + c;
    y[i] = from_float<Out>(fmaf(float(x[i]), factors.scale[c], factors.shift[c]));
  }
}

/// T: of the output.
template <typename T>
class NormalizeKernel final : public BoundKernel {
 public:
  NormalizeKernel(const ops::Normalize& op, const TensorType& x, const Device& device)
      : BoundKernel(device),
        channels_(std::int64_t(op.scale().size())),
        elems_(x.elems()),
        is_u8_(x.dtype == DType::u8) {
    for (std::int64_t first = 0; first < channels_; first += kMaxChannels) {
      const std::int64_t count = std::min(channels_ - first, std::int64_t{kMaxChannels});
      Factors& factors = factors_.emplace_back();
      std::copy_n(op.scale().begin() + first, count, factors.scale);
      std::copy_n(op.shift().begin() + first, count, factors.shift);
    }
  }

  void run(const RunState&) override {
    if (is_u8_)
      run_from(input<std::uint8_t>(0));
    else
      run_from(input(0));
  }

 private:
  template <typename In>
  void run_from(const In* x) const {
    if (factors_.size() == 1) {
      launch("normalize",
             {.grid = cover(ceil_div(elems_, kGroup)).grid,
              .shared_bytes = std::size_t(channels_) * 2 * sizeof(float)},
             stream(),
             normalize_kernel<T, In>,
             output<T>(0),
             x,
             elems_,
             int(channels_),
             factors_[0]);
      return;
    }
    const std::int64_t rows = channels_ == 0 ? 0 : elems_ / channels_;
    for (std::int64_t first = 0; first < channels_; first += kMaxChannels) {
      const std::int64_t count = std::min(channels_ - first, std::int64_t{kMaxChannels});
      launch("normalize_channels",
             cover(rows * count),
             stream(),
             normalize_channels_kernel<T, In>,
             output<T>(0),
             x,
             rows,
             channels_,
             first,
             int(count),
             factors_[std::size_t(first / kMaxChannels)]);
    }
  }

  std::int64_t channels_;  // that have factors of their own
  std::int64_t elems_;
  bool is_u8_;
  std::vector<Factors> factors_;
};

}  // namespace

std::unique_ptr<Kernel> make_normalize_kernel(const ops::Normalize& op,
                                              const KernelSpec& spec,
                                              const Device& device) {
  return make_stored<NormalizeKernel>(spec.outputs[0].dtype, op, spec.inputs[0], device);
}

}  // namespace lockstep::cuda
