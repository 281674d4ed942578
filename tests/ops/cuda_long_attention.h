// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <vector>

#include "core/ops/attention.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/op_case.h"
#include "tests/reference/attention.h"

/// Attention of bf16 in the sizes of GPT-2.
namespace lockstep::test {

/// bf16 rounds by at most 2^-9 of a value: outputs once, weights (and their gradients) once before
/// that. Independent, they add up to 2^-9 sqrt(2 / 3); twice that is granted.
inline constexpr double kMaxDistance = 2 * 0.816 / 512;

struct LongSize {
  std::int64_t samples, tokens;
  int heads;
  std::int64_t depth;
};

inline OpCase long_forward(const LongSize& s, bool causal, float dropout) {
  const ops::AttentionAttrs attrs{.heads = s.heads, .causal = causal, .dropout = dropout};
  const HostTensor qkv = random_f32({s.samples, s.tokens, 3 * s.heads * s.depth}, 1, -2, 2);
  return {fmt::format("{} tokens, {} columns, {}, dropout {}",
                      s.tokens,
                      s.depth,
                      causal ? "causal" : "not causal",
                      dropout),
          std::make_shared<ops::Attention>(attrs),
          {rounded_to_bf16(qkv)},
          {},
          {},
          {.seed = 3, .step = 5},
          "h.0.attn"};
}

inline OpCase long_backward(const OpCase& forward, const ReferenceOutputs& outputs) {
  const ReferenceArgs args = reference_args(forward);
  const Shape& y = args.output_types[0].shape;
  return {forward.name,
          std::make_shared<ops::AttentionBwd>(op_cast<ops::Attention>(*forward.op).attrs()),
          {forward.inputs[0],
           rounded_to_bf16(f32_tensor(y, {outputs[0].begin(), outputs[0].end()})),
           rounded_to_bf16(random_f32(y, 2)),
           f32_tensor(args.output_types[1].shape, {outputs[1].begin(), outputs[1].end()})},
          {},
          {},
          forward.state,
          forward.path};
}

/// |actual - expected| / |expected|; NaN where one of them has one.
inline double distance(const std::vector<double>& actual, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace lockstep::test
