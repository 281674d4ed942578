// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/llama.h"

#include <cmath>
#include <numbers>

#include "core/ops/rotary.h"

namespace lockstep::test {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Llama 3's frequency of pair i, in radians a position.
double frequency(const ops::RotaryPositions& p, std::size_t i, std::size_t depth) {
  const double plain = std::pow(double(p.theta), -2.0 * double(i) / double(depth));
  const double wavelength = 2 * std::numbers::pi / plain, context = double(p.original_context);
  if (p.factor == 1) return plain;
  if (wavelength > context / p.low_freq_factor) return plain / p.factor;
  if (wavelength < context / p.high_freq_factor) return plain;
  const double smooth =
      (context / wavelength - p.low_freq_factor) / (double(p.high_freq_factor) - p.low_freq_factor);
  return (1 - smooth) * plain / p.factor + smooth * plain;
}

/// Element (row, head, column) of queries, keys or values: where it lies in qkv.
template <typename Visit>
void for_each_element(const ops::RotaryAttrs& attrs, const Shape& packed, Visit visit) {
  const auto heads = std::size_t(attrs.heads), kv_heads = std::size_t(attrs.kv_heads);
  const auto depth = std::size_t(packed[2]) / (heads + 2 * kv_heads);
  for (std::size_t row = 0; row < std::size_t(packed[0] * packed[1]); ++row)
    for (std::size_t h = 0; h < heads + 2 * kv_heads; ++h) {
      const std::size_t part = h < heads ? 0 : h < heads + kv_heads ? 1 : 2;
      const std::size_t own = part == 0 ? h : (h - heads) % kv_heads;
      const std::size_t own_heads = part == 0 ? heads : kv_heads;
      for (std::size_t c = 0; c < depth; ++c)
        visit(part,
              (row * own_heads + own) * depth + c,
              (row * (heads + 2 * kv_heads) + h) * depth + c,
              row,
              c,
              depth);
    }
}

/// What `from` gives at `at`, an element whose head begins c columns before it, turned.
double turned(const std::vector<double>& from,
              std::size_t at,
              std::size_t c,
              std::size_t depth,
              double angle) {
  const std::size_t half = depth / 2;
  return c < half ? from[at] * std::cos(angle) - from[at + half] * std::sin(angle)
                  : from[at] * std::cos(angle) + from[at - half] * std::sin(angle);
}

}  // namespace

ReferenceOutputs swiglu_reference(const ReferenceArgs& args) {
  std::vector<double> y;
  for (std::size_t i = 0; i < args.inputs[0].size(); ++i) {
    const double gate = args.inputs[0][i];
    y.push_back(gate * logistic(gate) * args.inputs[1][i]);
  }
  return {y};
}

ReferenceOutputs swiglu_bwd_reference(const ReferenceArgs& args) {
  std::vector<double> dgate, dup;
  for (std::size_t i = 0; i < args.inputs[0].size(); ++i) {
    const double dy = args.inputs[0][i], gate = args.inputs[1][i], s = logistic(gate);
    dgate.push_back(dy * args.inputs[2][i] * s * (1 + gate * logistic(-gate)));
    dup.push_back(dy * gate * s);
  }
  return {dgate, dup};
}

ReferenceOutputs rotary_reference(const ReferenceArgs& args) {
  const auto& attrs = op_cast<ops::Rotary>(args.op).attrs();
  const Shape& packed = args.output_types[0].shape;
  std::vector<double> y(std::size_t(packed.elems()));
  for_each_element(attrs, packed, [&](auto part, auto at, auto to, auto row, auto c, auto depth) {
    const double angle =
        double(row % std::size_t(packed[1])) * frequency(attrs.positions, c % (depth / 2), depth);
    y[to] = part == 2 ? args.inputs[2][at] : turned(args.inputs[part], at, c, depth, angle);
  });
  return {y};
}

ReferenceOutputs rotary_bwd_reference(const ReferenceArgs& args) {
  const auto& attrs = op_cast<ops::RotaryBwd>(args.op).attrs();
  const Shape& packed = args.input_types[0].shape;
  ReferenceOutputs outputs;
  for (const TensorType& type : args.output_types) outputs.emplace_back(std::size_t(type.elems()));
  for_each_element(attrs, packed, [&](auto part, auto at, auto from, auto row, auto c, auto depth) {
    const double angle =
        double(row % std::size_t(packed[1])) * frequency(attrs.positions, c % (depth / 2), depth);
    outputs[part][at] =
        part == 2 ? args.inputs[0][from] : turned(args.inputs[0], from, c, depth, -angle);
  });
  return outputs;
}

}  // namespace lockstep::test
