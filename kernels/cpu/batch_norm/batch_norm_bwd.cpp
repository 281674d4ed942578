// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/batch_norm.h"
#include "kernels/cpu/batch_norm/batch_norm.h"
#include "kernels/cpu/batch_norm/batch_norm_groups.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

/// Note [Sums over the samples of a batch-norm group]. For both operators: bwd_sums and
/// residual_bwd_sums.
template <typename T>
class BatchNormBwdSumsKernel final : public BoundKernel {
 public:
  BatchNormBwdSumsKernel(const ops::BatchNormBwdSums& op, const KernelSpec& spec)
      : groups_(spec.inputs[0].shape, op.group_size()),
        relu_(op.relu()),
        largest_(ops::largest_open(op.limit())),
        adds_dgamma_(spec.output_accumulates[1]),
        adds_dbeta_(spec.output_accumulates[2]) {}
  BatchNormBwdSumsKernel(const ops::BatchNormResidualBwdSums& op, const KernelSpec& spec)
      : groups_(spec.inputs[0].shape, op.group_size()),
        residual_(true),
        two_uses_(op.two_uses()),
        adds_dgamma_(spec.output_accumulates[1]),
        adds_dbeta_(spec.output_accumulates[2]) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(groups_.max_columns()) * (2 * sizeof(double) + 5 * sizeof(float)) +
           std::size_t(2 * groups_.channels) * sizeof(double);
  }

  void run(const RunState& state) override {
    const std::int64_t channels = groups_.channels;
    std::fill_n(all_groups(), 2 * channels, 0.0);
    for (std::int64_t g = 0; g < groups_.count; ++g) {
      const std::int64_t rows = groups_.rows_in(g), fold = groups_.fold(rows);
      const float* saved = input(2) + g * (relu_ ? 4 : 2) * channels;
      column_sums(groups_.offset(g), saved, rows, fold);
      channel_sums(output(0) + g * 2 * channels, saved, fold);
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      set_or_add(output(1)[c], all_groups()[channels + c], state.accumulate && adds_dgamma_);
      set_or_add(output(2)[c], all_groups()[c], state.accumulate && adds_dbeta_);
    }
  }

 private:
  double* sums() const { return workspace<double>(); }
  double* products() const { return sums() + groups_.max_columns(); }
  double* all_groups() const { return products() + groups_.max_columns(); }  // [2, C]
  float* mean() const { return reinterpret_cast<float*>(all_groups() + 2 * groups_.channels); }
  float* block_sum() const { return mean() + groups_.max_columns(); }
  float* block_products() const { return block_sum() + groups_.max_columns(); }
  float* scale() const { return block_products() + groups_.max_columns(); }
  float* shift() const { return scale() + groups_.max_columns(); }

  /// Of the elements from `begin` on.
  void column_sums(std::int64_t begin, const float* saved, std::int64_t rows, std::int64_t fold) {
    const std::int64_t columns = fold * groups_.channels, whole = rows / fold;
    std::fill_n(sums(), columns, 0.0);
    std::fill_n(products(), columns, 0.0);
    std::copy_n(saved, groups_.channels, mean());
    repeat_pattern(mean(), groups_.channels, columns);
    if (relu_) {
      std::copy_n(saved + 2 * groups_.channels, groups_.channels, scale());
      std::copy_n(saved + 3 * groups_.channels, groups_.channels, shift());
      repeat_pattern(scale(), groups_.channels, columns);
      repeat_pattern(shift(), groups_.channels, columns);
    }
    for (std::int64_t row = 0; row < whole; row += kSumBlock)
      add_block(begin + row * columns, std::min(kSumBlock, whole - row), columns);
    const std::int64_t rest = rows % fold * groups_.channels;
    if (rest > 0) add_block(begin + whole * columns, 1, rest);
  }

  void add_block(std::int64_t begin, std::int64_t rows, std::int64_t columns) {
    const T* const x = input<T>(0) + begin;
    const T* const dy = input<T>(1) + begin;
    if (residual_)
      sum_products_residual_(x,
                             dy,
                             two_uses_ ? input<T>(4) + begin : nullptr,
                             input<T>(3) + begin,
                             output<T>(3) + begin,
                             rows,
                             columns,
                             mean(),
                             block_sum(),
                             block_products());
    else if (relu_)
      sum_products_relu_(
          x, dy, rows, columns, mean(), scale(), shift(), largest_, block_sum(), block_products());
    else
      sum_products_(x, dy, rows, columns, mean(), block_sum(), block_products());
    add_to_f64_(sums(), block_sum(), columns);
    add_to_f64_(products(), block_products(), columns);
  }

  void channel_sums(float* result, const float* saved, std::int64_t fold) {
    const std::int64_t channels = groups_.channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      double dy = 0, dy_deviation = 0;
      for (std::int64_t v = 0; v < fold; ++v) {
        dy += sums()[v * channels + c];
        dy_deviation += products()[v * channels + c];
      }
      const double dy_xhat = dy_deviation * double(saved[channels + c]);
      result[c] = float(dy);
      result[channels + c] = float(dy_xhat);
      all_groups()[c] += dy;
      all_groups()[channels + c] += dy_xhat;
    }
  }

  decltype(&baseline::sum_products<T>) sum_products_ = LOCKSTEP_CHOOSE(sum_products<T>);
  decltype(&baseline::sum_products_relu<T>) sum_products_relu_ =
      LOCKSTEP_CHOOSE(sum_products_relu<T>);
  decltype(&baseline::sum_products_residual<T>) sum_products_residual_ =
      LOCKSTEP_CHOOSE(sum_products_residual<T>);
  decltype(&baseline::add_to_f64) add_to_f64_ = LOCKSTEP_CHOOSE(add_to_f64);
  BatchNormGroups groups_;
  bool relu_ = false, residual_ = false, two_uses_ = false;
  float largest_ = ops::kNoLimit;
  bool adds_dgamma_, adds_dbeta_;
};

template <typename T>
class BatchNormBwdDataKernel final : public BoundKernel {
 public:
  BatchNormBwdDataKernel(const ops::BatchNormBwdData& op, const KernelSpec& spec)
      : groups_(spec.inputs[0].shape, op.group_size()),
        relu_(op.relu()),
        largest_(ops::largest_open(op.limit())),
        parts_(spec.inputs[4].shape[1]) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(patterns() * groups_.pattern_columns()) * sizeof(float);
  }

  void run(const RunState&) override {
    const std::int64_t columns = groups_.pattern_columns();
    float* pattern = workspace<float>();
    for (std::int64_t g = 0; g < groups_.count; ++g) {
      prepare(g);
      for (int i = 0; i < patterns(); ++i)
        repeat_pattern(pattern + i * columns, groups_.channels, columns);
      const std::int64_t offset = groups_.offset(g);
      T* dx = output<T>(0) + offset;
      const T* x = input<T>(0) + offset;
      const T* dy = input<T>(1) + offset;
      const auto part = [=](int k) { return pattern + k * columns; };
      if (relu_)
        batch_norm_bwd_relu_(dx,
                             dy,
                             x,
                             groups_.elems_in(g),
                             part(0),
                             part(1),
                             part(2),
                             part(3),
                             part(4),
                             part(5),
                             largest_,
                             columns);
      else
        batch_norm_bwd_(
            dx, dy, x, groups_.elems_in(g), part(0), part(1), part(2), part(3), columns);
    }
  }

 private:
  int patterns() const { return relu_ ? 6 : 4; }

  /// dx = a dy + b (x - mean) + c for one group.
  void prepare(std::int64_t g) {
    const std::int64_t channels = groups_.channels, columns = groups_.pattern_columns();
    float* a = workspace<float>();
    float* b = a + columns;
    float* mean = b + columns;
    float* shift = mean + columns;
    const float* saved = input(3) + g * (relu_ ? 4 : 2) * channels;
    const float* moments = input(4) + g * parts_ * 3 * channels;
    const float* sums = input(5) + g * parts_ * 2 * channels;
    double n = 0;
    for (std::int64_t p = 0; p < parts_; ++p) n += double(moments[p * 3 * channels]);
    // With one value per channel the statistics are constants.
    const double inverse_n = n > 1 ? 1.0 / n : 0.0;
    for (std::int64_t c = 0; c < channels; ++c) {
      double dy = 0, dy_xhat = 0;
      for (std::int64_t p = 0; p < parts_; ++p) {
        dy += double(sums[p * 2 * channels + c]);
        dy_xhat += double(sums[(p * 2 + 1) * channels + c]);
      }
      const double rstd = double(saved[channels + c]), factor = double(input(2)[c]) * rstd;
      a[c] = float(factor);
      b[c] = float(-factor * rstd * dy_xhat * inverse_n);
      mean[c] = saved[c];
      shift[c] = float(-factor * dy * inverse_n);
    }
    if (!relu_) return;
    std::copy_n(saved + 2 * channels, channels, shift + columns);
    std::copy_n(saved + 3 * channels, channels, shift + 2 * columns);
  }

  decltype(&baseline::batch_norm_bwd<T>) batch_norm_bwd_ = LOCKSTEP_CHOOSE(batch_norm_bwd<T>);
  decltype(&baseline::batch_norm_bwd_relu<T>) batch_norm_bwd_relu_ =
      LOCKSTEP_CHOOSE(batch_norm_bwd_relu<T>);
  BatchNormGroups groups_;
  bool relu_;
  float largest_;
  std::int64_t parts_;
};

}  // namespace

std::unique_ptr<Kernel> make_batch_norm_bwd_sums_kernel(const ops::BatchNormBwdSums& op,
                                                        const KernelSpec& spec) {
  return make_stored<BatchNormBwdSumsKernel>(spec.inputs[0].dtype, op, spec);
}

std::unique_ptr<Kernel> make_batch_norm_residual_bwd_sums_kernel(
    const ops::BatchNormResidualBwdSums& op, const KernelSpec& spec) {
  return make_stored<BatchNormBwdSumsKernel>(spec.inputs[0].dtype, op, spec);
}

std::unique_ptr<Kernel> make_batch_norm_bwd_data_kernel(const ops::BatchNormBwdData& op,
                                                        const KernelSpec& spec) {
  return make_stored<BatchNormBwdDataKernel>(spec.inputs[0].dtype, op, spec);
}

}  // namespace lockstep::cpu
