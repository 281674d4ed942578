// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/linear.h"

namespace lockstep::test {

ReferenceOutputs linear_reference(const ReferenceArgs& args) {
  const auto& [x, w] = std::pair(args.inputs[0], args.inputs[1]);
  const std::int64_t samples = args.input_types[0].shape[0], in = args.input_types[0].shape[1];
  const std::int64_t out = args.input_types[1].shape[0], pitch = args.output_types[0].shape[1];
  std::vector<double> y(std::size_t(samples * pitch));
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = args.inputs.size() == 3 ? args.inputs[2][std::size_t(o)] : 0.0;
      for (std::int64_t i = 0; i < in; ++i)
        sum += x[std::size_t(n * in + i)] * w[std::size_t(o * in + i)];
      y[std::size_t(n * pitch + o)] = sum;
    }
  return {y};
}

ReferenceOutputs linear_bwd_data_reference(const ReferenceArgs& args) {
  const auto& [dy, w] = std::pair(args.inputs[0], args.inputs[1]);
  const std::int64_t samples = args.input_types[0].shape[0], pitch = args.input_types[0].shape[1];
  const std::int64_t out = args.input_types[1].shape[0], in = args.output_types[0].shape[1];
  std::vector<double> dx(std::size_t(samples * in));
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i)
        dx[std::size_t(n * in + i)] += dy[std::size_t(n * pitch + o)] * w[std::size_t(o * in + i)];
  return {dx};
}

ReferenceOutputs linear_bwd_weights_reference(const ReferenceArgs& args) {
  const auto& [x, dy] = std::pair(args.inputs[0], args.inputs[1]);
  const std::int64_t samples = args.input_types[0].shape[0], in = args.input_types[0].shape[1];
  const std::int64_t out = args.output_types[0].shape[0], pitch = args.input_types[1].shape[1];
  std::vector<double> dw(std::size_t(out * in)), db(static_cast<std::size_t>(out));
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t o = 0; o < out; ++o) {
      const double g = dy[std::size_t(n * pitch + o)];
      db[std::size_t(o)] += g;
      for (std::int64_t i = 0; i < in; ++i)
        dw[std::size_t(o * in + i)] += g * x[std::size_t(n * in + i)];
    }
  if (args.output_types.size() == 1) return {dw};
  return {dw, db};
}

}  // namespace lockstep::test
