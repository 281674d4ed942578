// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/ops/norms/batch_norm.h"
#include "kernels/cpu/batch_norm/batch_norm_groups.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

struct Moments {
  double count = 0, mean = 0, deviations = 0;
};

/// Channel `c` of one group: its parts joined in order by Chan's formula. moments: [parts, 3, C].
Moments join_parts(const float* moments,
                   std::int64_t parts,
                   std::int64_t channels,
                   std::int64_t c) {
  Moments all;
  for (std::int64_t p = 0; p < parts; ++p, moments += 3 * channels) {
    const double n = moments[c];
    if (n == 0) continue;
    const double delta = double(moments[channels + c]) - all.mean, share = n / (all.count + n);
    all.deviations += double(moments[2 * channels + c]) + delta * delta * all.count * share;
    all.mean += delta * share;
    all.count += n;
  }
  return all;
}

template <typename T>
class BatchNormNormalizeKernel final : public BoundKernel {
 public:
  BatchNormNormalizeKernel(const ops::BatchNormNormalize& op, const KernelSpec& spec)
      : groups_(spec.inputs[0].shape, op.group_size()),
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
    return std::size_t(2 * groups_.channels) * sizeof(double) +
           std::size_t(2 * groups_.pattern_columns()) * sizeof(float);
  }

  void run(const RunState& state) override {
    std::fill_n(mean_sum(), 2 * groups_.channels, 0.0);
    double weight_sum = 0;
    for (std::int64_t g = 0; g < groups_.count; ++g) {
      weight_sum += prepare(g);
      repeat_pattern(scale(), groups_.channels, groups_.pattern_columns());
      repeat_pattern(shift(), groups_.channels, groups_.pattern_columns());
      apply(groups_.offset(g), groups_.elems_in(g));
    }
    for (std::int64_t c = 0; c < groups_.channels; ++c) {
      set_or_add(output(2)[c], mean_sum()[c], state.accumulate && adds_mean_);
      set_or_add(output(3)[c], var_sum()[c], state.accumulate && adds_var_);
    }
    set_or_add(output(4)[0], weight_sum, state.accumulate && adds_weight_);
  }

 private:
  void apply(std::int64_t offset, std::int64_t elems) {
    T* y = output<T>(0) + offset;
    const T* x = input<T>(0) + offset;
    const std::int64_t period = groups_.pattern_columns();
    if (residual_)
      affine_add_relu_(y, x, input<T>(7) + offset, elems, scale(), shift(), period);
    else if (relu_)
      affine_relu_(y, x, elems, scale(), shift(), period, limit_);
    else
      affine_(y, x, elems, scale(), shift(), period);
  }
  std::int64_t saved_elems() const { return (saves_affine_ ? 4 : 2) * groups_.channels; }

  double* mean_sum() const { return workspace<double>(); }
  double* var_sum() const { return mean_sum() + groups_.channels; }
  float* scale() const { return reinterpret_cast<float*>(var_sum() + groups_.channels); }
  float* shift() const { return scale() + groups_.pattern_columns(); }

  /// Fills saved, scale and shift of one group; returns its weight in the running statistics.
  double prepare(std::int64_t g) {
    const std::int64_t channels = groups_.channels;
    const float* moments = input(3) + g * parts_ * 3 * channels;
    float* saved = output(1) + g * saved_elems();
    double count = 0;
    for (std::int64_t p = 0; p < parts_; ++p) count += double(moments[p * 3 * channels]);
    // A group with one value per channel has no variance: the running statistics are constants.
    const bool has_variance = count > 1;
    const double weight = has_variance ? double(groups_.samples_in(g)) * double(input(6)[0]) : 0.0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const Moments all = join_parts(moments, parts_, channels, c);
      const double mean = has_variance ? all.mean : double(input(4)[c]);
      const double var = has_variance ? all.deviations / all.count : double(input(5)[c]);
      const double rstd = 1.0 / std::sqrt(var + double(eps_));
      const double factor = rstd * double(input(1)[c]);
      saved[c] = float(mean);
      saved[channels + c] = float(rstd);
      scale()[c] = float(factor);
      shift()[c] = float(double(input(2)[c]) - mean * factor);
      if (saves_affine_) {
        saved[2 * channels + c] = scale()[c];
        saved[3 * channels + c] = shift()[c];
      }
      if (!has_variance) continue;
      mean_sum()[c] += weight * mean;
      var_sum()[c] += weight * all.deviations / (all.count - 1);
    }
    return weight;
  }

  decltype(&baseline::affine<T>) affine_ = LOCKSTEP_CHOOSE(affine<T>);
  decltype(&baseline::affine_relu<T>) affine_relu_ = LOCKSTEP_CHOOSE(affine_relu<T>);
  decltype(&baseline::affine_add_relu<T>) affine_add_relu_ = LOCKSTEP_CHOOSE(affine_add_relu<T>);
  BatchNormGroups groups_;
  std::int64_t parts_;
  float eps_;
  bool relu_, residual_, saves_affine_;
  float limit_;
  bool adds_mean_, adds_var_, adds_weight_;
};

template <typename T>
class BatchNormInferenceKernel final : public BoundKernel {
 public:
  BatchNormInferenceKernel(const ops::BatchNormInference& op, const Shape& x)
      : groups_(x, 0),
        eps_(op.eps()),
        relu_(op.relu()),
        residual_(op.residual()),
        limit_(op.limit()) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(2 * groups_.pattern_columns()) * sizeof(float);
  }

  void run(const RunState&) override {
    float* scale = workspace<float>();
    float* shift = scale + groups_.pattern_columns();
    for (std::int64_t c = 0; c < groups_.channels; ++c) {
      const double factor = double(input(1)[c]) / std::sqrt(double(input(4)[c]) + double(eps_));
      scale[c] = float(factor);
      shift[c] = float(double(input(2)[c]) - double(input(3)[c]) * factor);
    }
    repeat_pattern(scale, groups_.channels, groups_.pattern_columns());
    repeat_pattern(shift, groups_.channels, groups_.pattern_columns());
    const std::int64_t elems = groups_.elems_in(0), period = groups_.pattern_columns();
    if (residual_)
      affine_add_relu_(output<T>(0), input<T>(0), input<T>(5), elems, scale, shift, period);
    else if (relu_)
      affine_relu_(output<T>(0), input<T>(0), elems, scale, shift, period, limit_);
    else
      affine_(output<T>(0), input<T>(0), elems, scale, shift, period);
  }

 private:
  decltype(&baseline::affine<T>) affine_ = LOCKSTEP_CHOOSE(affine<T>);
  decltype(&baseline::affine_relu<T>) affine_relu_ = LOCKSTEP_CHOOSE(affine_relu<T>);
  decltype(&baseline::affine_add_relu<T>) affine_add_relu_ = LOCKSTEP_CHOOSE(affine_add_relu<T>);
  BatchNormGroups groups_;
  float eps_;
  bool relu_, residual_;
  float limit_;
};

}  // namespace

std::unique_ptr<Kernel> make_batch_norm_normalize_kernel(const ops::BatchNormNormalize& op,
                                                         const KernelSpec& spec) {
  return make_stored<BatchNormNormalizeKernel>(spec.inputs[0].dtype, op, spec);
}

std::unique_ptr<Kernel> make_batch_norm_inference_kernel(const ops::BatchNormInference& op,
                                                         const KernelSpec& spec) {
  return make_stored<BatchNormInferenceKernel>(spec.inputs[0].dtype, op, spec.inputs[0].shape);
}

}  // namespace lockstep::cpu
