// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/conv2d.h"

#include "core/ops/conv2d.h"

namespace lockstep::test {
namespace {

std::size_t at(const Shape& s, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return std::size_t(((a * s[1] + b) * s[2] + c) * s[3] + d);
}

/// Calls `visit(x index, w index, y index)` for every product of the convolution.
template <typename Visit>
void for_each_product(
    const ops::Conv2dAttrs& attrs, const Shape& x, const Shape& w, const Shape& y, Visit visit) {
  const std::int64_t in = w[3], out_per_group = w[0] / attrs.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t p = 0; p < y[1]; ++p)
      for (std::int64_t q = 0; q < y[2]; ++q)
        for (std::int64_t o = 0; o < w[0]; ++o)
          for (std::int64_t r = 0; r < w[1]; ++r)
            for (std::int64_t s = 0; s < w[2]; ++s) {
              const std::int64_t h = p * attrs.stride_h - attrs.padding_h + r;
              const std::int64_t v = q * attrs.stride_w - attrs.padding_w + s;
              if (h < 0 || h >= x[1] || v < 0 || v >= x[2]) continue;
              for (std::int64_t i = 0; i < in; ++i)
                visit(at(x, n, h, v, o / out_per_group * in + i),
                      at(w, o, r, s, i),
                      at(y, n, p, q, o));
            }
}

}  // namespace

ReferenceOutputs conv2d_reference(const ReferenceArgs& args) {
  const auto& attrs = op_cast<ops::Conv2d>(args.op).attrs();
  const std::vector<double>&x = args.inputs[0], &w = args.inputs[1];
  const Shape& shape = args.output_types[0].shape;
  std::vector<double> y(std::size_t(shape.elems()));
  if (attrs.bias)
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = args.inputs[2][i % std::size_t(shape[3])];
  for_each_product(attrs,
                   args.input_types[0].shape,
                   args.input_types[1].shape,
                   shape,
                   [&](std::size_t a, std::size_t b, std::size_t c) { y[c] += x[a] * w[b]; });
  return {y};
}

ReferenceOutputs conv2d_bwd_data_reference(const ReferenceArgs& args) {
  const auto& attrs = op_cast<ops::Conv2dBwdData>(args.op).attrs();
  const std::vector<double>&dy = args.inputs[0], &w = args.inputs[1];
  std::vector<double> dx(std::size_t(args.output_types[0].elems()));
  for_each_product(attrs,
                   args.output_types[0].shape,
                   args.input_types[1].shape,
                   args.input_types[0].shape,
                   [&](std::size_t a, std::size_t b, std::size_t c) { dx[a] += dy[c] * w[b]; });
  return {dx};
}

ReferenceOutputs conv2d_bwd_weights_reference(const ReferenceArgs& args) {
  const auto& attrs = op_cast<ops::Conv2dBwdWeights>(args.op).attrs();
  const std::vector<double>&x = args.inputs[0], &dy = args.inputs[1];
  std::vector<double> dw(std::size_t(args.output_types[0].elems()));
  for_each_product(attrs,
                   args.input_types[0].shape,
                   args.output_types[0].shape,
                   args.input_types[1].shape,
                   [&](std::size_t a, std::size_t b, std::size_t c) { dw[b] += dy[c] * x[a]; });
  if (!attrs.bias) return {dw};
  std::vector<double> db(std::size_t(args.output_types[1].elems()));
  for (std::size_t i = 0; i < dy.size(); ++i) db[i % db.size()] += dy[i];
  return {dw, db};
}

}  // namespace lockstep::test
