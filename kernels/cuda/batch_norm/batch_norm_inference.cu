// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/batch_norm/batch_norm_affine.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"

// One thread for each channel finds scale and shift in fp64; then Note [Tiles of batch norm] over
// x. Bytes: x, y, and a residual, once. Bound by memory.
namespace lockstep::cuda {
namespace {

struct RunningStatistics {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* mean = nullptr;
  const float* var = nullptr;
};

/// affine: [2, channels].
__global__ void inference_affine_kernel(float* affine,
                                        RunningStatistics in,
                                        float eps,
                                        std::int64_t channels) {
  wait_for_earlier_work();
  for (std::int64_t c = global_thread(); c < channels; c += all_threads()) {
    const double factor = double(in.gamma[c]) / sqrt(double(in.var[c]) + double(eps));
    affine[c] = float(factor);
    affine[channels + c] = float(double(in.beta[c]) - double(in.mean[c]) * factor);
  }
}

template <typename T>
class BatchNormInferenceKernel final : public BoundKernel {
 public:
  BatchNormInferenceKernel(const ops::BatchNormInference& op,
                           const KernelSpec& spec,
                           const Device& device)
      : BoundKernel(device),
        tiles_(spec.inputs[0].shape, 0, Pack<T>::kElems, kMapBlocks, kMapBatch<T>),
        eps_(op.eps()),
        relu_(op.relu()),
        residual_(op.residual()),
        limit_(op.limit()) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(2 * tiles_.channels) * sizeof(float);
  }

  void run(const RunState&) override {
    if (tiles_.samples == 0) return;
    launch("batch_norm_inference affine",
           cover(tiles_.channels),
           stream(),
           inference_affine_kernel,
           workspace<float>(),
           RunningStatistics{input(1), input(2), input(3), input(4)},
           eps_,
           tiles_.channels);
    start_affine("batch_norm_inference",
                 AffineArgs<T>{.x = input<T>(0),
                               .residual = residual_ ? input<T>(5) : nullptr,
                               .y = output<T>(0),
                               .affine = workspace<float>(),
                               .relu = relu_,
                               .limit = limit_},
                 tiles_,
                 stream());
  }

 private:
  BatchNormTiles tiles_;
  float eps_;
  bool relu_, residual_;
  float limit_;
};

}  // namespace

std::unique_ptr<Kernel> make_batch_norm_inference_kernel(const ops::BatchNormInference& op,
                                                         const KernelSpec& spec,
                                                         const Device& device) {
  return make_stored<BatchNormInferenceKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
