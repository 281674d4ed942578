// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/batch_norm/batch_norm_affine.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"

// One thread for each channel joins the parts of every group, in order, in fp64, and leaves what
// backward and the running statistics need and each group's scale and shift; then Note [Tiles of
// batch norm] over x. Bytes: x, y, and a residual, once. Bound by memory.
namespace lockstep::cuda {
namespace {

struct Sum {
  float* out = nullptr;
  bool accumulate = false;
  __device__ void write(std::int64_t i, double value) const {
    out[i] = accumulate ? out[i] + float(value) : float(value);
  }
};

struct StatisticsArgs {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* moments = nullptr;  // [groups, parts, 3, channels]
  const float* running_mean = nullptr;
  const float* running_var = nullptr;
  const float* sample_weight = nullptr;
  float* saved = nullptr;   // [groups, 2 or 4, channels]
  float* affine = nullptr;  // [groups, 2, channels]
  Sum mean, var, weight;
  std::int64_t parts = 0;
  float eps = 0;
  bool saves_affine = false;
};

struct Moments {
  double count = 0, mean = 0, deviations = 0;
};

/// One channel of a group: its parts joined in order by Chan's formula. moments: [parts, 3, C].
__device__ inline Moments join_parts(const float* moments,
                                     std::int64_t parts,
                                     std::int64_t channels) {
  Moments all;
  for (std::int64_t p = 0; p < parts; ++p, moments += 3 * channels) {
    const double n = double(moments[0]);
    if (n == 0) continue;
    const double delta = double(moments[channels]) - all.mean, share = n / (all.count + n);
    all.deviations += double(moments[2 * channels]) + delta * delta * all.count * share;
    all.mean += delta * share;
    all.count += n;
  }
  return all;
}

__global__ void __launch_bounds__(kBlock)
    batch_norm_statistics_kernel(StatisticsArgs a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const std::int64_t channels = tiles.channels;
  for (std::int64_t c = global_thread(); c < channels; c += all_threads()) {
    double mean_sum = 0, var_sum = 0, weight_sum = 0;
    for (std::int64_t g = 0; g < tiles.groups; ++g) {
      const Moments all = join_parts(a.moments + g * a.parts * 3 * channels + c, a.parts, channels);
      // A group with one value per channel has no variance: the running statistics are constants.
      const bool has_variance = all.count > 1;
      const double mean = has_variance ? all.mean : double(a.running_mean[c]);
      const double var = has_variance ? all.deviations / all.count : double(a.running_var[c]);
      const double rstd = 1.0 / sqrt(var + double(a.eps));
      const double scale = rstd * double(a.gamma[c]);
      const double shift = double(a.beta[c]) - mean * scale;
      float* const saved = a.saved + g * (a.saves_affine ? 4 : 2) * channels + c;
      saved[0] = float(mean);
      saved[channels] = float(rstd);
      if (a.saves_affine) {
        saved[2 * channels] = float(scale);
        saved[3 * channels] = float(shift);
      }
      a.affine[g * 2 * channels + c] = float(scale);
      a.affine[(g * 2 + 1) * channels + c] = float(shift);
      if (!has_variance) continue;
      const double weight = double(tiles.samples_in(g)) * double(a.sample_weight[0]);
      weight_sum += weight;
      mean_sum += weight * mean;
      var_sum += weight * all.deviations / (all.count - 1);
    }
    a.mean.write(c, mean_sum);
    a.var.write(c, var_sum);
    if (c == 0) a.weight.write(0, weight_sum);
  }
}

template <typename T>
class BatchNormNormalizeKernel final : public BoundKernel {
 public:
  BatchNormNormalizeKernel(const ops::BatchNormNormalize& op,
                           const KernelSpec& spec,
                           const Device& device)
      : BoundKernel(device),
        tiles_(spec.inputs[0].shape, op.group_size(), Pack<T>::kElems, kMapBlocks, kMapBatch<T>),
        parts_(spec.inputs[3].shape[1]),
        eps_(op.eps()),
        relu_(op.relu()),
        residual_(op.residual()),
        saves_affine_(op.saves_affine()),
        limit_(op.limit()),
        adds_mean_(spec.output_accumulates[2]),
        adds_var_(spec.output_accumulates[3]),
        adds_weight_(spec.output_accumulates[4]) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(tiles_.groups * 2 * tiles_.channels) * sizeof(float);
  }

  void run(const RunState& state) override {
    launch("batch_norm_normalize statistics",
           cover(tiles_.channels),
           stream(),
           batch_norm_statistics_kernel,
           StatisticsArgs{.gamma = input(1),
                          .beta = input(2),
                          .moments = input(3),
                          .running_mean = input(4),
                          .running_var = input(5),
                          .sample_weight = input(6),
                          .saved = output(1),
                          .affine = workspace<float>(),
                          .mean = {output(2), state.accumulate && adds_mean_},
                          .var = {output(3), state.accumulate && adds_var_},
                          .weight = {output(4), state.accumulate && adds_weight_},
                          .parts = parts_,
                          .eps = eps_,
                          .saves_affine = saves_affine_},
           tiles_);
    if (tiles_.samples == 0) return;
    start_affine("batch_norm_normalize",
                 AffineArgs<T>{.x = input<T>(0),
                               .residual = residual_ ? input<T>(7) : nullptr,
                               .y = output<T>(0),
                               .affine = workspace<float>(),
                               .relu = relu_,
                               .limit = limit_},
                 tiles_,
                 stream());
  }

 private:
  BatchNormTiles tiles_;
  std::int64_t parts_;
  float eps_;
  bool relu_, residual_, saves_affine_;
  float limit_;
  bool adds_mean_, adds_var_, adds_weight_;
};

}  // namespace

std::unique_ptr<Kernel> make_batch_norm_normalize_kernel(const ops::BatchNormNormalize& op,
                                                         const KernelSpec& spec,
                                                         const Device& device) {
  return make_stored<BatchNormNormalizeKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
