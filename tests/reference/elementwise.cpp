// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/random.h"
#include "core/ops/activations/relu.h"
#include "core/ops/all_gather.h"
#include "core/ops/cast.h"
#include "core/ops/dropout.h"
#include "core/ops/normalize.h"
#include "core/ops/scale.h"

namespace lockstep::test {
namespace {

float inverted(float value) { return std::bit_cast<float>(~std::bit_cast<std::uint32_t>(value)); }

}  // namespace

ReferenceOutputs relu_reference(const ReferenceArgs& args) {
  const double limit = op_cast<ops::Relu>(args.op).limit();
  std::vector<double> y = args.inputs[0];
  for (double& v : y) {
    if (v <= 0) v = 0;
    if (v > limit) v = limit;
  }
  return {y};
}

ReferenceOutputs relu_bwd_reference(const ReferenceArgs& args) {
  const double limit = op_cast<ops::ReluBwd>(args.op).limit();
  std::vector<double> dx = args.inputs[0];
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double y = args.inputs[1][i];
    if (!(y > 0) || (y == limit && std::isfinite(limit))) dx[i] = 0;
  }
  return {dx};
}

ReferenceOutputs add_reference(const ReferenceArgs& args) {
  std::vector<double> y = args.inputs[0];
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += args.inputs[1][i];
  return {y};
}

ReferenceOutputs dropout_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::Dropout>(args.op);
  const double rate = op.rate();
  const auto threshold = std::uint64_t(std::llround(rate * 0x1p32));
  const std::uint64_t key = random_key(args.state.seed, args.path);
  std::vector<double> y = args.inputs[0];
  const std::size_t samples = std::size_t(args.input_types[0].shape[0]);
  const std::size_t size = samples == 0 ? 0 : y.size() / samples;
  for (std::size_t n = 0; n < samples; ++n)
    for (std::size_t e = 0; e < size; ++e) {
      const std::size_t decides = op.whole_samples() ? 0 : e;
      const RandomBlock block =
          philox(key, args.state.step, (args.state.first_sample + n) << 32 | decides / 4);
      double& v = y[n * size + e];
      v = block[decides % 4] >= threshold ? v / (1 - rate) : 0;
    }
  return {y};
}

ReferenceOutputs normalize_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::Normalize>(args.op);
  const auto channels = std::size_t(args.input_types[0].shape[-1]);
  std::vector<double> y = args.inputs[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = op.scale().size() == 1 ? 0 : i % channels;
    y[i] = y[i] * double(op.scale()[c]) + double(op.shift()[c]);
  }
  return {y};
}

ReferenceOutputs channel_scale_reference(const ReferenceArgs& args) {
  const std::vector<double>& gamma = args.inputs[1];
  std::vector<double> y = args.inputs[0];
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= gamma[i % gamma.size()];
  return {y};
}

ReferenceOutputs channel_scale_bwd_reference(const ReferenceArgs& args) {
  const std::vector<double>&dy = args.inputs[0], &x = args.inputs[1], &gamma = args.inputs[2];
  std::vector<double> dx = dy, dgamma(gamma.size(), 0.0);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    dx[i] *= gamma[i % gamma.size()];
    dgamma[i % gamma.size()] += dy[i] * x[i];
  }
  return {dx, dgamma};
}

ReferenceOutputs scale_reference(const ReferenceArgs& args) {
  std::vector<double> y = args.inputs[0];
  for (double& v : y) v *= double(op_cast<ops::Scale>(args.op).factor());
  return {y};
}

double rounded_to_bf16(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  // Eight significant bits; below the normal numbers a fixed step of 2^-133.
  const int exponent = std::max(std::ilogb(value), -126) - 7;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::abs(rounded) >= 0x1p128 ? std::copysign(INFINITY, value) : rounded;
}

ReferenceOutputs cast_reference(const ReferenceArgs& args) {
  std::vector<double> y = args.inputs[0];
  if (op_cast<ops::Cast>(args.op).output() == DType::bf16)
    for (double& v : y) v = rounded_to_bf16(v);
  return {y};
}

ReferenceOutputs all_gather_reference(const ReferenceArgs& args) {
  std::vector<double> y;
  const std::int64_t parts = op_cast<ops::AllGather>(args.op).parts();
  for (std::int64_t part = 0; part < parts; ++part)
    for (double v : args.inputs[0]) y.push_back(parts > 1 && part == 0 ? inverted(float(v)) : v);
  return {y};
}

}  // namespace lockstep::test
