// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/attention.h"

#include <algorithm>
#include <cmath>

#include "core/base/random.h"
#include "core/ops/attention.h"

namespace lockstep::test {
namespace {

/// One head of one sample, by the formulas, with whole matrices.
struct Head {
  Head(const ReferenceArgs& a,
       const ops::AttentionAttrs& at,
       std::size_t sample,
       std::size_t number)
      : args(a),
        attrs(at),
        n(sample),
        h(number),
        tokens(std::size_t(a.input_types[0].shape[1])),
        heads(std::size_t(attrs.heads)),
        kv_heads(attrs.kv_heads == 0 ? heads : std::size_t(attrs.kv_heads)),
        depth(std::size_t(a.input_types[0].shape[2]) / (heads + 2 * kv_heads)) {}

  /// Position of column d of token t in qkv's block `part` (0: q, 1: k, 2: v), and in y.
  std::size_t packed(std::size_t part, std::size_t t, std::size_t d) const {
    const std::size_t shared = h / (heads / kv_heads);
    const std::size_t place = part == 0 ? h : heads + (part - 1) * kv_heads + shared;
    return ((n * tokens + t) * (heads + 2 * kv_heads) + place) * depth + d;
  }
  std::size_t plain(std::size_t t, std::size_t d) const {
    return ((n * tokens + t) * heads + h) * depth + d;
  }
  std::size_t row(std::size_t i) const { return (n * std::size_t(attrs.heads) + h) * tokens + i; }
  std::size_t visible(std::size_t i) const { return attrs.causal ? i + 1 : tokens; }

  double score(std::size_t i, std::size_t j) const {
    double sum = 0;
    for (std::size_t d = 0; d < depth; ++d)
      sum += args.inputs[0][packed(0, i, d)] * args.inputs[0][packed(1, j, d)];
    return sum / std::sqrt(double(depth));
  }
  /// What dropout multiplies weight (i, j) by.
  double keep(std::size_t i, std::size_t j) const {
    const double rate = attrs.dropout;
    const auto threshold = std::uint64_t(std::llround(rate * 0x1p32));
    const std::size_t e = (h * tokens + i) * tokens + j;
    const RandomBlock block = philox(random_key(args.state.seed, args.path),
                                     args.state.step,
                                     (args.state.first_sample + n) << 32 | e / 4);
    return block[e % 4] >= threshold ? 1 / (1 - rate) : 0;
  }

  const ReferenceArgs& args;
  const ops::AttentionAttrs& attrs;
  std::size_t n, h, tokens, heads, kv_heads, depth;
};

template <typename Body>
void for_each_head(const ReferenceArgs& args, const ops::AttentionAttrs& attrs, Body body) {
  for (std::size_t n = 0; n < std::size_t(args.input_types[0].shape[0]); ++n)
    for (std::size_t h = 0; h < std::size_t(attrs.heads); ++h) body(Head(args, attrs, n, h));
}

/// log sum_j exp(s[i, j]) and the scores.
double log_sum(const Head& head, std::size_t i, std::vector<double>& scores) {
  scores.resize(head.visible(i));
  for (std::size_t j = 0; j < scores.size(); ++j) scores[j] = head.score(i, j);
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double s : scores) sum += std::exp(s - top);
  return top + std::log(sum);
}

}  // namespace

ReferenceOutputs attention_reference(const ReferenceArgs& args) {
  const auto& attrs = op_cast<ops::Attention>(args.op).attrs();
  std::vector<double> y(std::size_t(args.output_types[0].elems()));
  std::vector<double> lse(std::size_t(args.output_types[1].elems())), scores;
  for_each_head(args, attrs, [&](const Head& head) {
    for (std::size_t i = 0; i < head.tokens; ++i) {
      const double log_total = lse[head.row(i)] = log_sum(head, i, scores);
      for (std::size_t j = 0; j < scores.size(); ++j) {
        const double weight = std::exp(scores[j] - log_total) * head.keep(i, j);
        for (std::size_t d = 0; d < head.depth; ++d)
          y[head.plain(i, d)] += weight * args.inputs[0][head.packed(2, j, d)];
      }
    }
  });
  return {y, lse};
}

ReferenceOutputs attention_bwd_reference(const ReferenceArgs& args) {
  const auto& attrs = op_cast<ops::AttentionBwd>(args.op).attrs();
  const auto &qkv = args.inputs[0], &y = args.inputs[1], &dy = args.inputs[2];
  std::vector<double> dqkv(qkv.size());
  for_each_head(args, attrs, [&](const Head& head) {
    const double scale = 1 / std::sqrt(double(head.depth));
    for (std::size_t i = 0; i < head.tokens; ++i) {
      double delta = 0;
      for (std::size_t d = 0; d < head.depth; ++d)
        delta += dy[head.plain(i, d)] * y[head.plain(i, d)];
      for (std::size_t j = 0; j < head.visible(i); ++j) {
        const double p = std::exp(head.score(i, j) - args.inputs[3][head.row(i)]);
        const double keep = head.keep(i, j);
        double dp = 0;
        for (std::size_t d = 0; d < head.depth; ++d)
          dp += keep * dy[head.plain(i, d)] * qkv[head.packed(2, j, d)];
        const double ds = p * (dp - delta) * scale;
        for (std::size_t d = 0; d < head.depth; ++d) {
          dqkv[head.packed(2, j, d)] += keep * p * dy[head.plain(i, d)];
          dqkv[head.packed(0, i, d)] += ds * qkv[head.packed(1, j, d)];
          dqkv[head.packed(1, j, d)] += ds * qkv[head.packed(0, i, d)];
        }
      }
    }
  });
  return {dqkv};
}

double largest_column_norm(const ReferenceArgs& args) {
  const auto& attrs = op_cast<ops::Attention>(args.op).attrs();
  double largest = 0;
  std::vector<double> scores;
  for_each_head(args, attrs, [&](const Head& head) {
    std::vector<double> squares(head.tokens);
    for (std::size_t i = 0; i < head.tokens; ++i) {
      const double log_total = log_sum(head, i, scores);
      for (std::size_t j = 0; j < scores.size(); ++j)
        squares[j] += std::exp(2 * (scores[j] - log_total));
    }
    for (double s : squares) largest = std::max(largest, std::sqrt(s));
  });
  return largest;
}

}  // namespace lockstep::test
