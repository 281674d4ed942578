// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/losses.h"

#include <algorithm>
#include <cmath>

#include "core/ops/mean_squared_error.h"
#include "core/ops/softmax_cross_entropy.h"

namespace lockstep::test {

ReferenceOutputs softmax_cross_entropy_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::SoftmaxCrossEntropy>(args.op);
  const Shape& shape = args.input_types[0].shape;
  const auto classes = std::size_t(op.classes(args.input_types[0])), pitch = std::size_t(shape[-1]);
  const std::size_t rows = args.inputs[1].size();
  const double tokens = shape.rank() == 3 ? double(shape[1]) : 1;
  const double smoothing = double(op.label_smoothing()), weight = args.inputs[2][0] / tokens;
  double loss = 0, correct = 0, counted = 0;
  std::vector<double> dlogits(rows * pitch);
  for (std::size_t n = 0; n < rows; ++n) {
    if (op.ignore_index() && args.inputs[1][n] == double(*op.ignore_index())) continue;
    counted += weight;
    const double* x = &args.inputs[0][n * pitch];
    const auto label = std::size_t(args.inputs[1][n]);
    const double* largest = std::max_element(x, x + classes);
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += std::exp(x[k] - *largest);
    for (std::size_t k = 0; k < classes; ++k) {
      const double log_p = x[k] - *largest - std::log(sum);
      const double wanted = (k == label ? 1 - smoothing : 0) + smoothing / double(classes);
      if (wanted != 0) loss -= weight * wanted * log_p;
      dlogits[n * pitch + k] = weight * (std::exp(log_p) - wanted);
    }
    correct += std::size_t(largest - x) == label ? weight : 0;
  }
  ReferenceOutputs outputs{{loss}, {correct}};
  if (op.ignore_index()) outputs.push_back({counted});
  if (op.with_gradient()) outputs.push_back(dlogits);
  return outputs;
}

ReferenceOutputs mean_squared_error_reference(const ReferenceArgs& args) {
  const std::vector<double>&x = args.inputs[0], &target = args.inputs[1];
  const double weight = args.inputs[2][0] / double(args.input_types[0].shape[1]);
  double loss = 0;
  std::vector<double> dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    loss += weight * (x[i] - target[i]) * (x[i] - target[i]);
    dx[i] = 2 * weight * (x[i] - target[i]);
  }
  ReferenceOutputs outputs{{loss}};
  if (op_cast<ops::MeanSquaredError>(args.op).with_gradient()) outputs.push_back(dx);
  return outputs;
}

}  // namespace lockstep::test
