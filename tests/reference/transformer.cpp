// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/transformer.h"

#include <cmath>
#include <numbers>

#include "core/ops/activations/gelu.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/narrow.h"
#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {

ReferenceOutputs embedding_reference(const ReferenceArgs& args) {
  const auto& x = args.inputs[0];
  const auto tokens = std::size_t(args.input_types[0].shape[1]);
  const auto width = std::size_t(args.input_types[1].shape[1]);
  std::vector<double> y(x.size() * width);
  for (std::size_t r = 0; r < x.size(); ++r)
    for (std::size_t c = 0; c < width; ++c) {
      y[r * width + c] = args.inputs[1][std::size_t(x[r]) * width + c];
      if (args.inputs.size() == 3) y[r * width + c] += args.inputs[2][r % tokens * width + c];
    }
  return {y};
}

ReferenceOutputs embedding_bwd_tokens_reference(const ReferenceArgs& args) {
  const auto& x = args.inputs[0];
  const auto width = std::size_t(args.input_types[1].shape[2]);
  const auto vocabulary = std::size_t(op_cast<ops::EmbeddingBwdTokens>(args.op).vocabulary());
  std::vector<double> dw(vocabulary * width);
  for (std::size_t r = 0; r < x.size(); ++r)
    for (std::size_t c = 0; c < width; ++c)
      dw[std::size_t(x[r]) * width + c] += args.inputs[1][r * width + c];
  return {dw};
}

ReferenceOutputs embedding_bwd_positions_reference(const ReferenceArgs& args) {
  const auto tokens = std::size_t(args.input_types[0].shape[1]);
  const auto width = std::size_t(args.input_types[0].shape[2]);
  const auto positions = std::size_t(op_cast<ops::EmbeddingBwdPositions>(args.op).positions());
  std::vector<double> dp(positions * width);
  for (std::size_t i = 0; i < args.inputs[0].size(); ++i)
    dp[i % (tokens * width)] += args.inputs[0][i];
  return {dp};
}

ReferenceOutputs class_token_reference(const ReferenceArgs& args) {
  const auto &x = args.inputs[0], &token = args.inputs[1], &positions = args.inputs[2];
  const std::size_t sample = positions.size(), width = token.size(), rest = sample - width;
  const auto samples = std::size_t(args.input_types[0].shape[0]);
  std::vector<double> y(samples * sample);
  for (std::size_t n = 0; n < samples; ++n)
    for (std::size_t i = 0; i < sample; ++i)
      y[n * sample + i] = positions[i] + (i < width ? token[i] : x[n * rest + i - width]);
  return {y};
}

ReferenceOutputs narrow_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::Narrow>(args.op);
  const Shape& x = args.input_types[0].shape;
  std::vector<double> y;
  for (std::int64_t n = 0; n < x[0]; ++n)
    for (std::int64_t t = op.start(); t < op.start() + op.length(); ++t)
      for (std::int64_t c = 0; c < x[2]; ++c)
        y.push_back(args.inputs[0][std::size_t((n * x[1] + t) * x[2] + c)]);
  return {y};
}

ReferenceOutputs narrow_bwd_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::NarrowBwd>(args.op);
  const Shape& dy = args.input_types[0].shape;
  std::vector<double> dx(std::size_t(dy[0] * op.tokens() * dy[2]));
  for (std::int64_t n = 0; n < dy[0]; ++n)
    for (std::int64_t t = 0; t < dy[1]; ++t)
      for (std::int64_t c = 0; c < dy[2]; ++c)
        dx[std::size_t((n * op.tokens() + op.start() + t) * dy[2] + c)] =
            args.inputs[0][std::size_t((n * dy[1] + t) * dy[2] + c)];
  return {dx};
}

ReferenceOutputs layer_norm_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::LayerNorm>(args.op);
  const auto width = std::size_t(args.input_types[0].shape[-1]);
  std::vector<double> h = args.inputs[0];
  if (op.residual())
    for (std::size_t i = 0; i < h.size(); ++i) {
      h[i] += args.inputs.back()[i];
      // The sum is stored, and normalised as stored.
      if (args.input_types[0].dtype == DType::bf16) h[i] = rounded_to_bf16(double(float(h[i])));
    }
  std::vector<double> y(h.size()), saved;
  for (std::size_t r = 0; r < h.size() / width; ++r) {
    const double* row = &h[r * width];
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < width; ++c) mean += row[c] / double(width);
    for (std::size_t c = 0; c < width; ++c)
      variance += (row[c] - mean) * (row[c] - mean) / double(width);
    const double rstd = 1 / std::sqrt(variance + double(op.eps()));
    for (std::size_t c = 0; c < width; ++c)
      y[r * width + c] =
          args.inputs[1][c] * (row[c] - mean) * rstd + (op.bias() ? args.inputs[2][c] : 0.0);
    saved.push_back(mean);
    saved.push_back(rstd);
  }
  ReferenceOutputs outputs{y, saved};
  if (op.residual()) outputs.push_back(h);
  return outputs;
}

ReferenceOutputs layer_norm_bwd_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::LayerNormBwd>(args.op);
  const auto width = std::size_t(args.input_types[0].shape[-1]);
  const auto &h = args.inputs[0], &dy = args.inputs[1], &gamma = args.inputs[2];
  std::vector<double> dh(h.size()), dgamma(width), dbeta(width), xhat(width);
  for (std::size_t r = 0; r < h.size() / width; ++r) {
    const double mean = args.inputs[3][2 * r], rstd = args.inputs[3][2 * r + 1];
    double mean_g = 0, mean_product = 0;
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t i = r * width + c;
      xhat[c] = (h[i] - mean) * rstd;
      mean_g += gamma[c] * dy[i] / double(width);
      mean_product += gamma[c] * dy[i] * xhat[c] / double(width);
      dgamma[c] += dy[i] * xhat[c];
      dbeta[c] += dy[i];
    }
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t i = r * width + c;
      dh[i] = rstd * (gamma[c] * dy[i] - mean_g - xhat[c] * mean_product);
      if (op.residual()) dh[i] += args.inputs[4][i];
    }
  }
  ReferenceOutputs outputs{dh, dgamma};
  if (op.bias()) outputs.push_back(dbeta);
  return outputs;
}

ReferenceOutputs rms_norm_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::RmsNorm>(args.op);
  const auto width = std::size_t(args.input_types[0].shape[-1]);
  std::vector<double> h = args.inputs[0];
  if (op.residual())
    for (std::size_t i = 0; i < h.size(); ++i) {
      h[i] += args.inputs.back()[i];
      // The sum is stored, and normalised as stored.
      if (args.input_types[0].dtype == DType::bf16) h[i] = rounded_to_bf16(double(float(h[i])));
    }
  std::vector<double> y(h.size()), saved;
  for (std::size_t r = 0; r < h.size() / width; ++r) {
    double squares = 0;
    for (std::size_t c = 0; c < width; ++c) squares += h[r * width + c] * h[r * width + c];
    saved.push_back(1 / std::sqrt(squares / double(width) + double(op.eps())));
    for (std::size_t c = 0; c < width; ++c)
      y[r * width + c] = args.inputs[1][c] * h[r * width + c] * saved.back();
  }
  ReferenceOutputs outputs{y, saved};
  if (op.residual()) outputs.push_back(h);
  return outputs;
}

ReferenceOutputs rms_norm_bwd_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::RmsNormBwd>(args.op);
  const auto width = std::size_t(args.input_types[0].shape[-1]);
  const auto &h = args.inputs[0], &dy = args.inputs[1], &gamma = args.inputs[2];
  std::vector<double> dh(h.size()), dgamma(width);
  for (std::size_t r = 0; r < h.size() / width; ++r) {
    const double rstd = args.inputs[3][r];
    double mean_product = 0;
    for (std::size_t i = r * width; i < (r + 1) * width; ++i) {
      mean_product += gamma[i % width] * dy[i] * h[i] * rstd / double(width);
      dgamma[i % width] += dy[i] * h[i] * rstd;
    }
    for (std::size_t i = r * width; i < (r + 1) * width; ++i) {
      dh[i] = rstd * (gamma[i % width] * dy[i] - h[i] * rstd * mean_product);
      if (op.residual()) dh[i] += args.inputs[4][i];
    }
  }
  return {dh, dgamma};
}

namespace {

/// sqrt(2 / pi) (x + 0.044715 x^3)
double tanh_argument(double x) {
  return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
}

}  // namespace

double gelu_value(bool erf, double x) {
  // erfc, and the logistic function for tanh: no cancellation where the result is tiny.
  if (erf) return x / 2 * std::erfc(-x / std::numbers::sqrt2);
  return x / (1 + std::exp(-2 * tanh_argument(x)));
}

double gelu_slope(bool erf, double x) {
  if (erf)
    return std::erfc(-x / std::numbers::sqrt2) / 2 +
           x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  const double s = 1 / (1 + std::exp(-2 * tanh_argument(x)));
  const double slope = 2 * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  return s + x * s * (1 - s) * slope;
}

ReferenceOutputs gelu_reference(const ReferenceArgs& args) {
  const bool erf = op_cast<ops::Gelu>(args.op).gelu() == ops::GeluKind::erf;
  std::vector<double> y = args.inputs[0];
  for (double& v : y) v = gelu_value(erf, v);
  return {y};
}

ReferenceOutputs gelu_bwd_reference(const ReferenceArgs& args) {
  const bool erf = op_cast<ops::GeluBwd>(args.op).gelu() == ops::GeluKind::erf;
  std::vector<double> dx = args.inputs[0];
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= gelu_slope(erf, args.inputs[1][i]);
  return {dx};
}

}  // namespace lockstep::test
