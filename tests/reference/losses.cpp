// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/losses.h"

#include <algorithm>
#include <cmath>

#include "core/ops/losses/binary_cross_entropy.h"
#include "core/ops/losses/distillation_loss.h"
#include "core/ops/losses/regression_losses.h"
#include "core/ops/losses/softmax_cross_entropy.h"

namespace lockstep::test {

ReferenceOutputs softmax_cross_entropy_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::SoftmaxCrossEntropy>(args.op);
  const Shape& shape = args.input_types[0].shape;
  const auto classes = std::size_t(op.classes(args.input_types[0])), pitch = std::size_t(shape[-1]);
  const bool soft = op.is_soft(args.input_types[1]);
  const auto rows = std::size_t(op.rows(args.input_types[0]));
  const double tokens = shape.rank() == 3 ? double(shape[1]) : 1;
  const double smoothing = double(op.label_smoothing()), weight = args.inputs[2][0] / tokens;
  double loss = 0, correct = 0, counted = 0;
  std::vector<double> dlogits(rows * pitch);
  for (std::size_t n = 0; n < rows; ++n) {
    if (!soft && op.ignore_index() && args.inputs[1][n] == double(*op.ignore_index())) continue;
    counted += weight;
    const double* x = &args.inputs[0][n * pitch];
    const double* const pairs = &args.inputs[1][soft ? 4 * n : n];
    const auto first = std::size_t(pairs[0]), second = std::size_t(soft ? pairs[2] : pairs[0]);
    const auto of_class = [&](std::size_t k) {
      return op.class_weights().empty() ? 1.0 : double(op.class_weights()[k]);
    };
    const double first_weight = (soft ? pairs[1] : 1) * of_class(first),
                 second_weight = soft ? pairs[3] * of_class(second) : 0;
    const auto label = second_weight > first_weight ? second : first;
    const double* largest = std::max_element(x, x + classes);
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += std::exp(x[k] - *largest);
    for (std::size_t k = 0; k < classes; ++k) {
      const double log_p = x[k] - *largest - std::log(sum);
      const double of_label = (k == first ? first_weight : 0) + (k == second ? second_weight : 0);
      const double of_row = first_weight + second_weight;
      const double wanted = of_label * (1 - smoothing) + of_row * smoothing / double(classes);
      if (wanted != 0) loss -= weight * wanted * log_p;
      dlogits[n * pitch + k] = weight * (of_row * std::exp(log_p) - wanted);
    }
    correct += std::size_t(largest - x) == label ? weight : 0;
  }
  ReferenceOutputs outputs{{loss}, {correct}};
  if (op.ignore_index()) outputs.push_back({counted});
  if (op.with_gradient()) outputs.push_back(dlogits);
  return outputs;
}

namespace {

/// The mean over elements of `value` of the difference to the target, and of `slope`.
template <typename Op, typename Function>
ReferenceOutputs regression_reference(const ReferenceArgs& args, Function value, Function slope) {
  const std::vector<double>&x = args.inputs[0], &target = args.inputs[1];
  const auto& op = op_cast<Op>(args.op);
  const double weight = args.inputs[2][0] / double(args.input_types[0].shape[1]);
  double loss = 0;
  std::vector<double> dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    loss += weight * value(op, x[i] - target[i]);
    dx[i] = weight * slope(op, x[i] - target[i]);
  }
  ReferenceOutputs outputs{{loss}};
  if (op.with_gradient()) outputs.push_back(dx);
  return outputs;
}

double sign(double d) { return d > 0 ? 1 : d < 0 ? -1 : 0; }

}  // namespace

ReferenceOutputs mean_squared_error_reference(const ReferenceArgs& args) {
  using Op = ops::MeanSquaredError;
  using Function = double (*)(const Op&, double);
  return regression_reference<Op, Function>(
      args, [](const Op&, double d) { return d * d; }, [](const Op&, double d) { return 2 * d; });
}

ReferenceOutputs l1_loss_reference(const ReferenceArgs& args) {
  using Op = ops::L1Loss;
  using Function = double (*)(const Op&, double);
  return regression_reference<Op, Function>(
      args,
      [](const Op&, double d) { return std::abs(d); },
      [](const Op&, double d) { return sign(d); });
}

ReferenceOutputs huber_loss_reference(const ReferenceArgs& args) {
  using Op = ops::HuberLoss;
  using Function = double (*)(const Op&, double);
  return regression_reference<Op, Function>(
      args,
      [](const Op& op, double d) {
        const double delta = double(op.delta());
        return std::abs(d) <= delta ? 0.5 * d * d : delta * (std::abs(d) - 0.5 * delta);
      },
      [](const Op& op, double d) {
        return std::abs(d) <= double(op.delta()) ? d : double(op.delta()) * sign(d);
      });
}

ReferenceOutputs binary_cross_entropy_reference(const ReferenceArgs& args) {
  const std::vector<double>&x = args.inputs[0], &target = args.inputs[1];
  const double weight = args.inputs[2][0] / double(args.input_types[0].shape[1]);
  double loss = 0, correct = 0;
  std::vector<double> dlogits(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double log = std::log1p(std::exp(-std::abs(x[i])));
    loss += weight * (std::max(x[i], 0.0) - x[i] * target[i] + log);
    correct += (x[i] > 0) == (target[i] > 0.5) ? weight : 0;
    dlogits[i] = weight * (1 / (1 + std::exp(-x[i])) - target[i]);
  }
  ReferenceOutputs outputs{{loss}, {correct}};
  if (op_cast<ops::BinaryCrossEntropy>(args.op).with_gradient()) outputs.push_back(dlogits);
  return outputs;
}

ReferenceOutputs distillation_loss_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::DistillationLoss>(args.op);
  const ops::Distilled& d = op.distilled();
  const auto classes = std::size_t(args.input_types[0].shape[1]);
  const double temperature = d.temperature, weight = args.inputs[2][0] * double(d.alpha);
  const auto softmax = [&](const double* x) {
    std::vector<double> p(x, x + classes);
    const double top = *std::max_element(x, x + classes);
    double sum = 0;
    for (double& value : p) sum += value = std::exp((value - top) / temperature);
    for (double& value : p) value /= sum;
    return p;
  };
  const auto log_softmax = [&](const double* x, std::size_t k) {
    const double top = *std::max_element(x, x + classes);
    double sum = 0;
    for (std::size_t i = 0; i < classes; ++i) sum += std::exp((x[i] - top) / temperature);
    return (x[k] - top) / temperature - std::log(sum);
  };
  double loss = args.inputs[3][0];
  std::vector<double> dlogits(args.inputs[0].size());
  for (std::size_t first = 0; first < dlogits.size(); first += classes) {
    const double *x = &args.inputs[0][first], *t = &args.inputs[1][first];
    const std::vector<double> p = softmax(x);
    std::vector<double> q = softmax(t);
    if (d.hard) {
      const auto likeliest = std::size_t(std::max_element(t, t + classes) - t);
      std::fill(q.begin(), q.end(), 0.0);
      q[likeliest] = 1;
      loss -= weight * log_softmax(x, likeliest);
    }
    for (std::size_t k = 0; k < classes; ++k) {
      if (!d.hard)
        loss += weight * temperature * temperature * q[k] * (log_softmax(t, k) - log_softmax(x, k));
      dlogits[first + k] = weight * temperature * (p[k] - q[k]);
    }
  }
  ReferenceOutputs outputs{{loss}};
  if (op.with_gradient()) outputs.push_back(dlogits);
  return outputs;
}

}  // namespace lockstep::test
