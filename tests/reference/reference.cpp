// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

double dot_output(Reference forward,
                  const ReferenceArgs& args,
                  int output,
                  const std::vector<double>& output_grad) {
  const ReferenceOutputs outputs = forward(args);
  const std::vector<double>& values = outputs[std::size_t(output)];
  EXPECT_EQ(values.size(), output_grad.size());
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * output_grad[i];
  return sum;
}

}  // namespace

void check_gradient(const std::string& what,
                    Reference forward,
                    const ReferenceArgs& args,
                    int output,
                    const std::vector<double>& output_grad,
                    int input,
                    const std::vector<double>& analytic,
                    double step) {
  double magnitude = 0;
  const std::vector<double> start = forward(args)[std::size_t(output)];
  for (std::size_t i = 0; i < start.size(); ++i) magnitude += std::abs(start[i] * output_grad[i]);
  ReferenceArgs moved = args;
  std::vector<double>& x = moved.inputs[std::size_t(input)];
  ASSERT_EQ(x.size(), analytic.size()) << what;
  double scale = 1, worst = -1;
  std::size_t worst_index = 0;
  double worst_numeric = 0;
  for (double g : analytic) scale = std::max(scale, std::abs(g));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double original = x[i];
    x[i] = original + step;
    const double above = dot_output(forward, moved, output, output_grad);
    x[i] = original - step;
    const double below = dot_output(forward, moved, output, output_grad);
    x[i] = original;
    const double numeric = (above - below) / (2 * step);
    const double difference = std::abs(numeric - analytic[i]);
    if (!(difference <= worst)) {
      worst = difference;
      worst_index = i;
      worst_numeric = numeric;
    }
  }
  // The roundings of the two sums, divided by 2 * step.
  const double rounding = 8 * 0x1p-53 * magnitude / step;
  // The truncation of central differences is step^2 / 6 times a third derivative of order `scale`;
  // the factor 60 leaves room for third derivatives up to 360 times that.
  EXPECT_LE(worst, 60 * step * step * scale + rounding)
      << what << ": worst element " << worst_index << " of the gradient of input " << input
      << ": analytic " << (analytic.empty() ? 0 : analytic[worst_index]) << ", numeric "
      << worst_numeric;
}

}  // namespace lockstep::test
