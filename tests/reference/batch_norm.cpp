// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/ops/norms/batch_norm.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

/// Elements of x that belong to channel c of group g, as a half-open range of rows.
struct Groups {
  Groups(const TensorType& x, std::int64_t group_size)
      : channels(std::size_t(x.shape[-1])), samples(x.shape[0]) {
    positions = x.shape.rank() == 4 ? x.shape[1] * x.shape[2] : 1;
    size = group_size == 0 ? samples : group_size;
    count = std::size_t(ops::batch_norm_groups(samples, group_size));
  }
  std::int64_t samples_in(std::size_t g) const {
    return std::min(size, samples - std::int64_t(g) * size);
  }
  std::size_t begin(std::size_t g) const { return g * std::size_t(size * positions); }
  std::size_t end(std::size_t g) const { return begin(g) + std::size_t(samples_in(g) * positions); }

  std::size_t channels, count = 1;
  std::int64_t samples, positions = 1, size = 0;
};

}  // namespace

ReferenceOutputs batch_norm_moments_reference(const ReferenceArgs& args) {
  const Groups groups(args.input_types[0], op_cast<ops::BatchNormMoments>(args.op).group_size());
  const std::vector<double>& x = args.inputs[0];
  const std::size_t channels = groups.channels;
  std::vector<double> moments(groups.count * 3 * channels, 0.0);
  for (std::size_t g = 0; g < groups.count; ++g) {
    const double n = double(groups.end(g) - groups.begin(g));
    for (std::size_t c = 0; c < channels && n > 0; ++c) {
      double sum = 0, deviations = 0;
      for (std::size_t row = groups.begin(g); row < groups.end(g); ++row)
        sum += x[row * channels + c];
      for (std::size_t row = groups.begin(g); row < groups.end(g); ++row)
        deviations += std::pow(x[row * channels + c] - sum / n, 2);
      moments[g * 3 * channels + c] = n;
      moments[(g * 3 + 1) * channels + c] = sum / n;
      moments[(g * 3 + 2) * channels + c] = deviations;
    }
  }
  return {moments};
}

ReferenceOutputs batch_norm_normalize_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::BatchNormNormalize>(args.op);
  const Groups groups(args.input_types[0], op.group_size());
  const std::size_t channels = groups.channels;
  const auto parts = std::size_t(args.input_types[3].shape[1]);
  const auto& [x, gamma, beta, moments, running_mean, running_var, sample_weight] =
      std::tie(args.inputs[0],
               args.inputs[1],
               args.inputs[2],
               args.inputs[3],
               args.inputs[4],
               args.inputs[5],
               args.inputs[6]);
  std::vector<double> y(x.size()), saved(groups.count * 2 * channels);
  std::vector<double> mean_sum(channels, 0.0), var_sum(channels, 0.0), weight_sum(1, 0.0);
  for (std::size_t g = 0; g < groups.count; ++g) {
    const double weight = double(groups.samples_in(g)) * sample_weight[0];
    double n = 0;
    for (std::size_t c = 0; c < channels; ++c) {
      n = 0;
      double sum = 0, deviations = 0;
      for (std::size_t p = 0; p < parts; ++p) {
        const double* part = &moments[(g * parts + p) * 3 * channels + c];
        n += part[0];
        sum += part[0] * part[channels];
      }
      for (std::size_t p = 0; p < parts; ++p) {
        const double* part = &moments[(g * parts + p) * 3 * channels + c];
        deviations += part[2 * channels] + part[0] * std::pow(part[channels] - sum / n, 2);
      }
      const double mean = n > 1 ? sum / n : running_mean[c];
      const double var = n > 1 ? deviations / n : running_var[c];
      const double rstd = 1 / std::sqrt(var + double(op.eps()));
      saved[g * 2 * channels + c] = mean;
      saved[(g * 2 + 1) * channels + c] = rstd;
      for (std::size_t row = groups.begin(g); row < groups.end(g); ++row)
        y[row * channels + c] = gamma[c] * (x[row * channels + c] - mean) * rstd + beta[c];
      if (n > 1) {
        mean_sum[c] += weight * mean;
        var_sum[c] += weight * deviations / (n - 1);
      }
    }
    if (n > 1) weight_sum[0] += weight;
  }
  return {y, saved, mean_sum, var_sum, weight_sum};
}

namespace {

/// Per group and over all: sums of dy and of dy * xhat.
ReferenceOutputs bwd_sums(const Groups& groups,
                          const std::vector<double>& x,
                          const std::vector<double>& dy,
                          const std::vector<double>& saved) {
  const std::size_t channels = groups.channels;
  std::vector<double> sums(groups.count * 2 * channels, 0.0);
  std::vector<double> dgamma(channels, 0.0), dbeta(channels, 0.0);
  for (std::size_t g = 0; g < groups.count; ++g)
    for (std::size_t row = groups.begin(g); row < groups.end(g); ++row)
      for (std::size_t c = 0; c < channels; ++c) {
        const double mean = saved[g * 2 * channels + c], rstd = saved[(g * 2 + 1) * channels + c];
        const double d = dy[row * channels + c];
        const double d_xhat = d * (x[row * channels + c] - mean) * rstd;
        sums[g * 2 * channels + c] += d;
        sums[(g * 2 + 1) * channels + c] += d_xhat;
        dbeta[c] += d;
        dgamma[c] += d_xhat;
      }
  return {sums, dgamma, dbeta};
}

}  // namespace

ReferenceOutputs batch_norm_bwd_sums_reference(const ReferenceArgs& args) {
  const Groups groups(args.input_types[0], op_cast<ops::BatchNormBwdSums>(args.op).group_size());
  return bwd_sums(groups, args.inputs[0], args.inputs[1], args.inputs[2]);
}

ReferenceOutputs batch_norm_residual_bwd_sums_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::BatchNormResidualBwdSums>(args.op);
  const bool is_bf16 = args.input_types[0].dtype == DType::bf16;
  std::vector<double> dz = args.inputs[1];
  for (std::size_t i = 0; i < dz.size(); ++i) {
    // Sums are of dz as it is stored.
    if (op.two_uses()) dz[i] = double(float(dz[i] + args.inputs[4][i]));
    if (op.two_uses() && is_bf16) dz[i] = rounded_to_bf16(dz[i]);
    if (!(args.inputs[3][i] > 0)) dz[i] = 0;
  }
  ReferenceOutputs outputs =
      bwd_sums(Groups(args.input_types[0], op.group_size()), args.inputs[0], dz, args.inputs[2]);
  outputs.push_back(dz);
  return outputs;
}

ReferenceOutputs batch_norm_bwd_data_reference(const ReferenceArgs& args) {
  const Groups groups(args.input_types[0], op_cast<ops::BatchNormBwdData>(args.op).group_size());
  const std::size_t channels = groups.channels;
  const auto parts = std::size_t(args.input_types[4].shape[1]);
  const std::vector<double>&x = args.inputs[0], &dy = args.inputs[1], &gamma = args.inputs[2];
  const std::vector<double>&saved = args.inputs[3], &moments = args.inputs[4];
  const std::vector<double>& sums = args.inputs[5];
  std::vector<double> dx(x.size());
  for (std::size_t g = 0; g < groups.count; ++g)
    for (std::size_t c = 0; c < channels; ++c) {
      double n = 0, sum_dy = 0, sum_dy_xhat = 0;
      for (std::size_t p = 0; p < parts; ++p) {
        n += moments[(g * parts + p) * 3 * channels + c];
        sum_dy += sums[(g * parts + p) * 2 * channels + c];
        sum_dy_xhat += sums[((g * parts + p) * 2 + 1) * channels + c];
      }
      const double mean = saved[g * 2 * channels + c], rstd = saved[(g * 2 + 1) * channels + c];
      for (std::size_t row = groups.begin(g); row < groups.end(g); ++row) {
        const std::size_t i = row * channels + c;
        const double xhat = (x[i] - mean) * rstd;
        dx[i] = gamma[c] * rstd * (n > 1 ? dy[i] - sum_dy / n - xhat * sum_dy_xhat / n : dy[i]);
      }
    }
  return {dx};
}

ReferenceOutputs batch_norm_inference_reference(const ReferenceArgs& args) {
  const double eps = double(op_cast<ops::BatchNormInference>(args.op).eps());
  std::vector<double> y = args.inputs[0];
  const std::size_t channels = args.inputs[1].size();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i % channels;
    y[i] = args.inputs[1][c] * (y[i] - args.inputs[3][c]) / std::sqrt(args.inputs[4][c] + eps) +
           args.inputs[2][c];
  }
  return {y};
}

}  // namespace lockstep::test
