// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/ops/mean_squared_error.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/reduce.cuh"

// Mean squared error and its gradient. First kernel: a thread takes four neighbouring elements at a
// time and walks on by the grid, whose size the extents fix; it adds the squares in fp64, where
// they are exact, and a block joins its threads. Second kernel: one block adds the blocks. Bytes:
// x, t and dx once. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kMostBlocks = 1024;
constexpr int kGroup = Pack<float>::kElems;

/// w / D
__device__ inline double element_weight(const float* sample_weight, std::int64_t features) {
  return features == 0 ? 0.0 : double(sample_weight[0]) / double(features);
}

/// dx (null: not wanted) may be x. Returns the sum of the squares.
template <int N>
__device__ inline double squared_errors(float* dx, const float* x, const float* t, float factor) {
  Floats<N> d = load_floats<N>(x);
  const Floats<N> target = load_floats<N>(t);
  double sum = 0;
  for (int i = 0; i < N; ++i) {
    d.values[i] -= target.values[i];
    sum += double(d.values[i]) * double(d.values[i]);
    d.values[i] = factor * d.values[i];
  }
  if (dx != nullptr) store_floats(dx, d);
  return sum;
}

__global__ void squared_error_kernel(double* partials,
                                     float* dx,
                                     const float* x,
                                     const float* t,
                                     std::int64_t elems,
                                     const float* sample_weight,
                                     std::int64_t features) {
  const auto factor = float(2.0 * element_weight(sample_weight, features));
  const std::int64_t groups = elems / kGroup;
  double sum = 0;
  for (std::int64_t g = global_thread(); g < groups; g += all_threads()) {
    const std::int64_t i = g * kGroup;
    sum += squared_errors<kGroup>(dx == nullptr ? nullptr : dx + i, x + i, t + i, factor);
  }
  for (std::int64_t i = groups * kGroup + global_thread(); i < elems; i += all_threads())
    sum += squared_errors<1>(dx == nullptr ? nullptr : dx + i, x + i, t + i, factor);
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// One block.
__global__ void add_errors_kernel(float* loss,
                                  const double* partials,
                                  std::int64_t blocks,
                                  const float* sample_weight,
                                  std::int64_t features,
                                  bool add) {
  double sum = 0;
  for (std::int64_t b = threadIdx.x; b < blocks; b += blockDim.x) sum += partials[b];
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x != 0) return;
  const auto value = float(element_weight(sample_weight, features) * sum);
  loss[0] = add ? loss[0] + value : value;
}

class MeanSquaredErrorKernel final : public BoundKernel {
 public:
  MeanSquaredErrorKernel(const ops::MeanSquaredError& op,
                         const KernelSpec& spec,
                         const Device& device)
      : BoundKernel(device),
        elems_(spec.inputs[0].elems()),
        features_(spec.inputs[0].shape[1]),
        shape_(cover(ceil_div(elems_, kGroup), kMostBlocks)),
        with_gradient_(op.with_gradient()),
        adds_loss_(spec.output_accumulates[0]) {
    shape_.shared_bytes = kBlock / kWarp * sizeof(double);
  }

  std::size_t workspace_bytes() const override { return shape_.grid.x * sizeof(double); }

  void run(const RunState& state) override {
    launch("mean_squared_error",
           shape_,
           stream(),
           squared_error_kernel,
           workspace<double>(),
           with_gradient_ ? output(1) : nullptr,
           input(0),
           input(1),
           elems_,
           input(2),
           features_);
    launch("mean_squared_error_sum",
           {.shared_bytes = kBlock / kWarp * sizeof(double)},
           stream(),
           add_errors_kernel,
           output(0),
           workspace<double>(),
           shape_.grid.x,
           input(2),
           features_,
           adds_loss_ && state.accumulate);
  }

 private:
  std::int64_t elems_, features_;
  LaunchShape shape_;
  bool with_gradient_, adds_loss_;
};

}  // namespace

std::unique_ptr<Kernel> make_mean_squared_error_kernel(const ops::MeanSquaredError& op,
                                                       const KernelSpec& spec,
                                                       const Device& device) {
  return std::make_unique<MeanSquaredErrorKernel>(op, spec, device);
}

}  // namespace lockstep::cuda
