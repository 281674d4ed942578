// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/ops/channel_scale.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/linear/column_sums.h"
#include "kernels/cuda/linear/product_helpers.h"

// A thread handles 16 bytes of a row of x, or one element where rows do not start at multiples of
// that, and walks on by as many whole rows as the grid covers, so that it reads its part of gamma
// once. Backward also leaves the products dy x in the workspace, in fp32, for column_sums. Bytes:
// each tensor once; the products written and read once. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kBlocksOfMultiprocessor = 16;

/// Groups of neighbouring channels that threads take.
struct ChannelGroups {
  std::int64_t of_row, all;

  /// By which a thread walks: whole rows. What the grid has beyond them is idle.
  __device__ std::int64_t step() const { return all_threads() / of_row * of_row; }
  /// For `all` groups, at least one whole row.
  LaunchShape shape(const Device& device) const {
    return cover(
        all, std::max(device.multiprocessors * kBlocksOfMultiprocessor, ceil_div(of_row, kBlock)));
  }
};

template <typename T, int N>
__global__ void channel_scale_kernel(T* y, const T* x, const float* gamma, ChannelGroups groups) {
  wait_for_earlier_work();
  const std::int64_t step = groups.step(), first = global_thread();
  if (first >= step || first >= groups.all) return;
  const Floats<N> factor = load_floats<N>(gamma + first % groups.of_row * N);
  for (std::int64_t g = first; g < groups.all; g += step) {
    Floats<N> value = load_floats<N>(x + g * N);
    for (int i = 0; i < N; ++i) value.values[i] = factor.values[i] * value.values[i];
    store_floats(y + g * N, value);
  }
}

template <typename T, int N>
__global__ void channel_scale_bwd_kernel(
    T* dx, float* products, const T* dy, const T* x, const float* gamma, ChannelGroups groups) {
  wait_for_earlier_work();
  const std::int64_t step = groups.step(), first = global_thread();
  if (first >= step || first >= groups.all) return;
  const Floats<N> factor = load_floats<N>(gamma + first % groups.of_row * N);
  for (std::int64_t g = first; g < groups.all; g += step) {
    Floats<N> d = load_floats<N>(dy + g * N), product = load_floats<N>(x + g * N);
    for (int i = 0; i < N; ++i) {
      product.values[i] = d.values[i] * product.values[i];
      d.values[i] = factor.values[i] * d.values[i];
    }
    store_floats(products + g * N, product);
    store_floats(dx + g * N, d);
  }
}

template <typename T>
class ChannelScaleKernel final : public BoundKernel {
 public:
  ChannelScaleKernel(const Shape& x, const Device& device)
      : BoundKernel(device), elems_(x.elems()), columns_(x[-1]) {}
  void run(const RunState&) override {
    if (elems_ == 0) return;
    with_width<T>(columns_, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const ChannelGroups groups{columns_ / kWidth, elems_ / kWidth};
      launch("channel_scale",
             groups.shape(device()),
             stream(),
             channel_scale_kernel<T, kWidth>,
             output<T>(0),
             input<T>(0),
             input(1),
             groups);
    });
  }

 private:
  std::int64_t elems_, columns_;
};

template <typename T>
class ChannelScaleBwdKernel final : public BoundKernel {
 public:
  ChannelScaleBwdKernel(const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        elems_(spec.inputs[0].elems()),
        columns_(spec.inputs[0].shape[-1]),
        output_accumulates_(spec.output_accumulates) {}

  std::size_t workspace_bytes() const override {
    return sums_offset() + column_sums_workspace(rows(), columns_);
  }

  void run(const RunState& state) override {
    if (columns_ == 0) return;
    if (elems_ > 0)
      with_width<T>(columns_, [&](auto width) {
        constexpr int kWidth = decltype(width)::value;
        const ChannelGroups groups{columns_ / kWidth, elems_ / kWidth};
        launch("channel_scale_bwd",
               groups.shape(device()),
               stream(),
               channel_scale_bwd_kernel<T, kWidth>,
               output<T>(0),
               workspace<float>(),
               input<T>(0),
               input<T>(1),
               input(2),
               groups);
      });
    column_sums(device(),
                {.values = workspace<float>(),
                 .type = DType::f32,
                 .rows = rows(),
                 .columns = columns_,
                 .sums = output(1),
                 .accumulate = accumulates(output_accumulates_, 1, state),
                 .workspace = workspace<void>(sums_offset())});
  }

 private:
  std::int64_t rows() const { return columns_ == 0 ? 0 : elems_ / columns_; }
  std::size_t sums_offset() const { return aligned(std::size_t(elems_) * sizeof(float)); }

  std::int64_t elems_, columns_;
  std::vector<bool> output_accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_channel_scale_kernel(const ops::ChannelScale&,
                                                  const KernelSpec& spec,
                                                  const Device& device) {
  return make_stored<ChannelScaleKernel>(spec.inputs[0].dtype, spec.inputs[0].shape, device);
}

std::unique_ptr<Kernel> make_channel_scale_bwd_kernel(const ops::ChannelScaleBwd&,
                                                      const KernelSpec& spec,
                                                      const Device& device) {
  return make_stored<ChannelScaleBwdKernel>(spec.inputs[0].dtype, spec, device);
}

}  // namespace lockstep::cuda
