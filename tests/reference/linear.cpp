// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/linear.h"

#include "core/ops/matmul.h"

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

ReferenceOutputs matmul_reference(const ReferenceArgs& args) {
  const ops::Matmul::Attrs attrs = op_cast<ops::Matmul>(args.op).attrs();
  const std::int64_t m = args.output_types[0].shape[0], n = args.output_types[0].shape[1];
  const std::int64_t k = args.inputs[0].size() / std::size_t(m);
  std::vector<double> y(std::size_t(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += args.inputs[0][std::size_t(attrs.transpose_a ? l * m + i : i * k + l)] *
               args.inputs[1][std::size_t(attrs.transpose_b ? j * k + l : l * n + j)];
      y[std::size_t(i * n + j)] = double(attrs.alpha) * sum;
      if (attrs.beta != 0)
        y[std::size_t(i * n + j)] += double(attrs.beta) * args.inputs[2][std::size_t(i * n + j)];
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
