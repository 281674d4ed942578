// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/batch_norm.h"
#include "kernels/cpu/batch_norm/batch_norm.h"
#include "kernels/cpu/batch_norm/batch_norm_groups.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

/// Note [Sums over the samples of a batch-norm group] says how and how exactly.
template <typename T>
class BatchNormMomentsKernel final : public BoundKernel {
 public:
  explicit BatchNormMomentsKernel(const BatchNormGroups& groups) : groups_(groups) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(groups_.max_columns()) * (2 * sizeof(double) + 3 * sizeof(float));
  }

  void run(const RunState&) override {
    const std::int64_t channels = groups_.channels;
    for (std::int64_t g = 0; g < groups_.count; ++g) {
      float* moments = output(0) + g * 3 * channels;
      const std::int64_t rows = groups_.rows_in(g);
      if (rows == 0) {
        std::fill_n(moments, 3 * channels, 0.0f);
        continue;
      }
      const std::int64_t fold = groups_.fold(rows);
      column_moments(input<T>(0) + groups_.offset(g), rows, fold);
      channel_moments(moments, rows, fold);
    }
  }

 private:
  double* mean() const { return workspace<double>(); }
  double* deviations() const { return mean() + groups_.max_columns(); }
  float* pivot() const { return reinterpret_cast<float*>(deviations() + groups_.max_columns()); }
  float* sum() const { return pivot() + groups_.max_columns(); }
  float* squares() const { return sum() + groups_.max_columns(); }

  void column_moments(const T* x, std::int64_t rows, std::int64_t fold) {
    const std::int64_t columns = fold * groups_.channels, whole = rows / fold;
    std::fill_n(mean(), columns, 0.0);
    std::fill_n(deviations(), columns, 0.0);
    std::fill_n(pivot(), columns, 0.0f);
    const std::int64_t first = std::min(whole, kSumBlock);
    sum_deviations_(x, first, columns, pivot(), sum(), squares());
    for (std::int64_t i = 0; i < columns; ++i) pivot()[i] = sum()[i] / float(first);
    for (std::int64_t row = 0; row < whole; row += kSumBlock)
      join(x + row * columns, std::min(kSumBlock, whole - row), columns, row);
    const std::int64_t rest = rows % fold * groups_.channels;
    if (rest > 0) join(x + whole * columns, 1, rest, whole);
  }

  void join(const T* x, std::int64_t rows, std::int64_t columns, std::int64_t before) {
    sum_deviations_(x, rows, columns, pivot(), sum(), squares());
    join_block_(
        mean(), deviations(), pivot(), sum(), squares(), columns, double(before), double(rows));
  }

  void channel_moments(float* moments, std::int64_t rows, std::int64_t fold) {
    const std::int64_t channels = groups_.channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      double count = 0, m = 0, d = 0;
      for (std::int64_t v = 0; v < fold; ++v) {
        const double n = double(rows / fold + (v < rows % fold ? 1 : 0));
        const double delta = mean()[v * channels + c] - m, share = n / (count + n);
        d += deviations()[v * channels + c] + delta * delta * count * share;
        m += delta * share;
        count += n;
      }
      moments[c] = float(rows);
      moments[channels + c] = float(m);
      moments[2 * channels + c] = float(d);
    }
  }

  decltype(&baseline::sum_deviations<T>) sum_deviations_ = LOCKSTEP_CHOOSE(sum_deviations<T>);
  decltype(&baseline::join_block) join_block_ = LOCKSTEP_CHOOSE(join_block);
  BatchNormGroups groups_;
};

}  // namespace

std::unique_ptr<Kernel> make_batch_norm_moments_kernel(const ops::BatchNormMoments& op,
                                                       const KernelSpec& spec) {
  return make_stored<BatchNormMomentsKernel>(
      spec.inputs[0].dtype, BatchNormGroups(spec.inputs[0].shape, op.group_size()));
}

}  // namespace lockstep::cpu
