// SPDX-License-Identifier: Apache-2.0
#include "core/ops/channel_scale.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/linear/column_sums.h"
#include "kernels/cuda/linear/product_helpers.h"
#include "kernels/cuda/vector_access.cuh"

// A thread computes one element at a time, neighbours neighbouring ones, and walks on by the grid.
// Backward also leaves the products dy x in the workspace, in fp32, for column_sums. Bytes: each
// tensor once; the products written and read once. Bound by memory.
namespace lockstep::cuda {
namespace {

template <typename T>
__global__ void channel_scale_kernel(
    T* y, const T* x, const float* gamma, std::int64_t elems, std::int64_t columns) {
  wait_for_earlier_work();
  for (std::int64_t i = global_thread(); i < elems; i += all_threads())
    y[i] = from_float<T>(gamma[i % columns] * to_float(x[i]));
}

template <typename T>
__global__ void channel_scale_bwd_kernel(T* dx,
                                         float* products,
                                         const T* dy,
                                         const T* x,
                                         const float* gamma,
                                         std::int64_t elems,
                                         std::int64_t columns) {
  wait_for_earlier_work();
  for (std::int64_t i = global_thread(); i < elems; i += all_threads()) {
    const float d = to_float(dy[i]);
    products[i] = d * to_float(x[i]);
    dx[i] = from_float<T>(gamma[i % columns] * d);
  }
}

template <typename T>
class ChannelScaleKernel final : public BoundKernel {
 public:
  ChannelScaleKernel(const Shape& x, const Device& device)
      : BoundKernel(device), elems_(x.elems()), columns_(x[-1]) {}
  void run(const RunState&) override {
    if (elems_ == 0) return;
    launch("channel_scale",
           cover(elems_),
           stream(),
           channel_scale_kernel<T>,
           output<T>(0),
           input<T>(0),
           input(1),
           elems_,
           columns_);
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
      launch("channel_scale_bwd",
             cover(elems_),
             stream(),
             channel_scale_bwd_kernel<T>,
             output<T>(0),
             workspace<float>(),
             input<T>(0),
             input<T>(1),
             input(2),
             elems_,
             columns_);
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
