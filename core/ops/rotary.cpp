// SPDX-License-Identifier: Apache-2.0
#include "core/ops/rotary.h"

#include <cmath>
#include <numbers>

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {
namespace {

std::string describe(const RotaryAttrs& a) {
  const RotaryPositions& p = a.positions;
  std::string text = fmt::format("heads={}:{} theta={}", a.heads, a.kv_heads, p.theta);
  if (p.factor != 1.0f)
    text += fmt::format(
        " scaled={}:{}:{}:{}", p.factor, p.low_freq_factor, p.high_freq_factor, p.original_context);
  return text;
}

/// Turns a position, after Llama 3's scaling.
double scaled(double turns, const RotaryPositions& p) {
  if (p.factor == 1.0f) return turns;
  const double in_context = turns * double(p.original_context);
  const double low = p.low_freq_factor, high = p.high_freq_factor;
  if (in_context < low) return turns / p.factor;
  if (in_context > high) return turns;
  const double share = (in_context - low) / (high - low);
  return (1 - share) * turns / p.factor + share * turns;
}

Cost with_turns(Cost cost, const RotaryAttrs& attrs, const TensorType& qkv) {
  // Four products and two sums a pair of queries and keys.
  const double heads = attrs.heads + attrs.kv_heads;
  cost.flops = 3 * double(qkv.elems()) * heads / (heads + attrs.kv_heads);
  return cost;
}

void check(const char* op, const RotaryAttrs& attrs, const TensorType& type, std::int64_t heads) {
  expect_activation(op, "input", type, 3);
  const std::int64_t width = type.shape[2], depth = heads < 1 ? 0 : width / heads;
  LOCKSTEP_CHECK(attrs.heads >= 1 && attrs.kv_heads >= 1 && attrs.heads % attrs.kv_heads == 0 &&
                     width == depth * heads && depth >= 2 && depth % 2 == 0 &&
                     depth <= kMaxRotaryDepth,
                 ShapeError,
                 "{}: expected {} heads of an even number of columns, {} at most, and heads a "
                 "multiple of the {} key-value heads; got {}",
                 op,
                 heads,
                 kMaxRotaryDepth,
                 attrs.kv_heads,
                 type.to_string());
  // Then no phase is a whole turn or more.
  const RotaryPositions& p = attrs.positions;
  LOCKSTEP_CHECK(p.theta > 1.0f && p.factor >= 1.0f && p.low_freq_factor > 0.0f &&
                     p.high_freq_factor > p.low_freq_factor && p.original_context >= 1,
                 ConfigError,
                 "{}: expected a rotary theta above 1, a factor of at least 1, frequency factors "
                 "above 0, the low one below the high one, and an original context of at least 1; "
                 "got {}, {}, {}, {} and {}",
                 op,
                 p.theta,
                 p.factor,
                 p.low_freq_factor,
                 p.high_freq_factor,
                 p.original_context);
}

}  // namespace

std::vector<std::uint64_t> rotary_phases(const RotaryPositions& positions, std::int64_t depth) {
  std::vector<std::uint64_t> phases;
  for (std::int64_t i = 0; i < depth / 2; ++i) {
    const double frequency = std::pow(double(positions.theta), -2.0 * double(i) / double(depth)) /
                             (2 * std::numbers::pi);
    phases.push_back(std::uint64_t(std::ldexp(scaled(frequency, positions), 64)));
  }
  return phases;
}

std::string Rotary::attributes() const { return describe(attrs_); }

std::vector<TensorType> Rotary::infer(std::span<const TensorType> inputs) const {
  expect_inputs("rotary", inputs, 3);
  const TensorType &q = inputs[0], &k = inputs[1];
  check("rotary", attrs_, q, attrs_.heads);
  const std::int64_t depth = q.shape[2] / attrs_.heads;
  expect_same("rotary", "keys", k, {{q.shape[0], q.shape[1], attrs_.kv_heads * depth}, q.dtype});
  expect_same("rotary", "values", inputs[2], k);
  return {{{q.shape[0], q.shape[1], (attrs_.heads + 2 * attrs_.kv_heads) * depth}, q.dtype}};
}

Cost Rotary::cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return with_turns(OpBase::cost(inputs, outputs), attrs_, outputs[0]);
}

std::vector<ValueId> Rotary::gradient(GradientBuilder& builder,
                                      const Node& node,
                                      std::span<const ValueId> output_grads) const {
  return builder.emit(node, std::make_shared<RotaryBwd>(attrs_), {output_grads[0]});
}

std::string RotaryBwd::attributes() const { return describe(attrs_); }

std::vector<TensorType> RotaryBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("rotary_bwd", inputs, 1);
  const TensorType& d = inputs[0];
  check("rotary_bwd", attrs_, d, attrs_.heads + 2 * attrs_.kv_heads);
  const std::int64_t depth = attrs_.depth_of(d);
  const TensorType q{{d.shape[0], d.shape[1], attrs_.heads * depth}, d.dtype};
  const TensorType k{{d.shape[0], d.shape[1], attrs_.kv_heads * depth}, d.dtype};
  return {q, k, k};
}

Cost RotaryBwd::cost(std::span<const TensorType> inputs,
                     std::span<const TensorType> outputs) const {
  return with_turns(OpBase::cost(inputs, outputs), attrs_, inputs[0]);
}

}  // namespace lockstep::ops
