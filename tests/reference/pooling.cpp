// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/pooling.h"

#include <cmath>
#include <functional>

#include "core/ops/pooling/avg_pool2d.h"
#include "core/ops/pooling/max_pool2d.h"

namespace lockstep::test {
namespace {

/// Calls visit(output element, input element, position in the window) for every input element of
/// every window, in window order.
void for_each_tap(const ops::Pool2dAttrs& a,
                  const Shape& x,
                  const Shape& y,
                  const std::function<void(std::size_t, std::size_t, int)>& visit) {
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t p = 0; p < y[1]; ++p)
      for (std::int64_t q = 0; q < y[2]; ++q)
        for (std::int64_t c = 0; c < y[3]; ++c)
          for (int r = 0; r < a.kernel_h; ++r)
            for (int s = 0; s < a.kernel_w; ++s) {
              const std::int64_t h = p * a.stride_h - a.padding_h + r;
              const std::int64_t w = q * a.stride_w - a.padding_w + s;
              if (h < 0 || h >= x[1] || w < 0 || w >= x[2]) continue;
              visit(std::size_t(((n * y[1] + p) * y[2] + q) * y[3] + c),
                    std::size_t(((n * x[1] + h) * x[2] + w) * x[3] + c),
                    r * a.kernel_w + s);
            }
}

std::vector<double> zeros(const TensorType& type) {
  return std::vector<double>(static_cast<std::size_t>(type.elems()), 0.0);
}

}  // namespace

ReferenceOutputs max_pool2d_reference(const ReferenceArgs& args) {
  std::vector<double> y = zeros(args.output_types[0]), winner(y.size(), -1);
  const std::vector<double>& x = args.inputs[0];
  for_each_tap(op_cast<ops::MaxPool2d>(args.op).attrs(),
               args.input_types[0].shape,
               args.output_types[0].shape,
               [&](std::size_t o, std::size_t i, int position) {
                 const bool first_nan = std::isnan(x[i]) && !std::isnan(y[o]);
                 if (winner[o] >= 0 && !(x[i] > y[o]) && !first_nan) return;
                 y[o] = x[i];
                 winner[o] = position;
               });
  return {y, winner};
}

ReferenceOutputs max_pool2d_bwd_reference(const ReferenceArgs& args) {
  std::vector<double> dx = zeros(args.output_types[0]);
  for_each_tap(op_cast<ops::MaxPool2dBwd>(args.op).attrs(),
               args.output_types[0].shape,
               args.input_types[0].shape,
               [&](std::size_t o, std::size_t i, int position) {
                 if (args.inputs[1][o] == position) dx[i] += args.inputs[0][o];
               });
  return {dx};
}

ReferenceOutputs avg_pool2d_reference(const ReferenceArgs& args) {
  const ops::Pool2dAttrs& attrs = op_cast<ops::AvgPool2d>(args.op).attrs();
  std::vector<double> y = zeros(args.output_types[0]);
  for_each_tap(attrs,
               args.input_types[0].shape,
               args.output_types[0].shape,
               [&](std::size_t o, std::size_t i, int) { y[o] += args.inputs[0][i]; });
  for (double& v : y) v /= attrs.kernel_h * attrs.kernel_w;
  return {y};
}

ReferenceOutputs avg_pool2d_bwd_reference(const ReferenceArgs& args) {
  const ops::Pool2dAttrs& attrs = op_cast<ops::AvgPool2dBwd>(args.op).attrs();
  std::vector<double> dx = zeros(args.output_types[0]);
  for_each_tap(attrs,
               args.output_types[0].shape,
               args.input_types[0].shape,
               [&](std::size_t o, std::size_t i, int) { dx[i] += args.inputs[0][o]; });
  for (double& v : dx) v /= attrs.kernel_h * attrs.kernel_w;
  return {dx};
}

ReferenceOutputs global_avg_pool_reference(const ReferenceArgs& args) {
  const Shape& x = args.input_types[0].shape;
  const auto channels = std::size_t(x[3]), positions = std::size_t(x[1] * x[2]);
  std::vector<double> y = zeros(args.output_types[0]);
  for (std::size_t i = 0; i < args.inputs[0].size(); ++i)
    y[i / (channels * positions) * channels + i % channels] +=
        args.inputs[0][i] / double(positions);
  return {y};
}

ReferenceOutputs global_avg_pool_bwd_reference(const ReferenceArgs& args) {
  const Shape& x = args.output_types[0].shape;
  const auto channels = std::size_t(x[3]), positions = std::size_t(x[1] * x[2]);
  std::vector<double> dx = zeros(args.output_types[0]);
  for (std::size_t i = 0; i < dx.size(); ++i)
    dx[i] =
        args.inputs[0][i / (channels * positions) * channels + i % channels] / double(positions);
  return {dx};
}

}  // namespace lockstep::test
