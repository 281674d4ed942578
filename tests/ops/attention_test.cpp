// SPDX-License-Identifier: Apache-2.0
#include "core/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/attention.h"

namespace lockstep::test {
namespace {

struct Size {
  std::int64_t samples, tokens;
  int heads;
  std::int64_t depth;
  int kv_heads = 0;
  std::int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
};

// Empty, one token, one head, depths off the vector widths, and around the kernels' blocks of 96
// tokens (CPU), of 64 tokens and of 64 and 128 columns (CUDA), and for its tensor cores of 128
// tokens up to 64 columns, of 64 above, of 16 within.
const Size kSizes[] = {{0, 5, 2, 4},
                       {2, 0, 2, 4},
                       {2, 1, 3, 5},
                       {1, 2, 1, 1},
                       {2, 7, 2, 3},
                       {1, 13, 1, 17},
                       {2, 33, 2, 8},
                       {1, 64, 2, 32},
                       {1, 95, 1, 33},
                       {1, 97, 2, 16},
                       {1, 200, 1, 64},
                       {1, 129, 1, 40},
                       {1, 66, 2, 80},
                       {1, 83, 1, 128},
                       {1, 20, 1, 131},
                       {1, 20, 1, 256}};
// More heads than CUDA's blocks take at a time.
const Size kManyHeads{3, 65, 11, 8};
// Heads that share keys and values.
const Size kGroups[] = {{2, 7, 4, 3, 2}, {1, 130, 6, 16, 2}, {2, 33, 3, 40, 1}, {1, 20, 4, 130, 2}};

OpCase forward_case(const Size& s, bool causal, float dropout, float range = 1) {
  const ops::AttentionAttrs attrs{
      .heads = s.heads, .kv_heads = s.kv_heads, .causal = causal, .dropout = dropout};
  const std::int64_t width = (s.heads + 2 * s.key_heads()) * s.depth;
  return {
      fmt::format("{}x{}, {} heads of {}, |x| < {}", s.samples, s.tokens, s.heads, s.depth, range),
      std::make_shared<ops::Attention>(attrs),
      {random_f32({s.samples, s.tokens, width}, 1, -range, range)},
      {},
      {},
      {.seed = 3, .step = 0x500000007ull, .first_sample = 11},
      "h.0.attn"};
}

/// The error of a score over 2^-24: of a sum of D products (product_tolerance.h) over sqrt(D), with
/// three more roundings (the factor, its product with q, the maximum taken off).
double score_error(const Size& s, double range) {
  const double d = double(s.depth);
  return range * range * (5 * std::max(1.0, std::sqrt(d) / 3) + 3 * std::sqrt(d));
}

/// Error of a sum of the device's exponentials, 2^-22 of it, over 2^-24.
constexpr double kDeviceExp = 4;

/// Whether a device multiplies by weights that are rounded to bf16, on tensor cores.
bool rounds_weights(const Size& s) { return s.depth % 8 == 0 && s.depth <= 128; }

/// What dropout multiplies by.
double enlargement(float dropout) { return 1 / (1 - double(dropout)); }

void set_forward_tolerances(OpCase& c, const Size& s, float dropout, float range) {
  const double score = score_error(s, range);
  const double top = double(range) * double(range) * std::sqrt(double(s.depth));
  const double log_tokens = std::log(double(std::max<std::int64_t>(s.tokens, 1)));
  // Weights sum to one, and are as inexact as their scores and the sum below them; a chain of T
  // products adds roundings of sums below `range`. Rounded to bf16 each moves by 2^-8 of itself at
  // most, and so y by 2^-8 of sum_j p_j |v_j|.
  const double chain = 0.5 * std::sqrt(double(s.tokens));
  c.tolerances = {{.c = 1,
                   .scale = enlargement(dropout) * range * (2 * score + 6 + chain),
                   .rounded = rounds_weights(s) ? enlargement(dropout) * range : 0},
                  {.c = 1, .scale = score + 2 * (top + log_tokens) + 2 + kDeviceExp}};
}

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kSizes)
    for (bool causal : {true, false})
      for (float dropout : {0.0f, 0.3f}) {
        OpCase c = forward_case(s, causal, dropout);
        set_forward_tolerances(c, s, dropout, 1);
        cases.push_back(c);
        c.name += ", bf16";
        c.inputs[0] = rounded_to_bf16(c.inputs[0]);
        cases.push_back(c);
      }
  cases.push_back(forward_case(kManyHeads, true, 0));
  set_forward_tolerances(cases.back(), kManyHeads, 0, 1);
  for (const Size& s : kGroups)
    for (bool causal : {true, false})
      for (float dropout : {0.0f, 0.3f}) {
        cases.push_back(forward_case(s, causal, dropout));
        set_forward_tolerances(cases.back(), s, dropout, 1);
      }
  // Steep softmax, whose maximum grows from block to block of keys.
  for (bool causal : {true, false}) {
    const Size s{1, 210, 1, 20};
    OpCase c = forward_case(s, causal, 0, 5);
    set_forward_tolerances(c, s, 0, 5);
    cases.push_back(c);
  }
  return cases;
}

std::vector<float> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

OpCase backward_case(const OpCase& forward) {
  const auto& attrs = op_cast<ops::Attention>(*forward.op).attrs();
  const ReferenceArgs args = reference_args(forward);
  const auto outputs = attention_reference(args);
  const Shape& y = args.output_types[0].shape;
  return {forward.name,
          std::make_shared<ops::AttentionBwd>(attrs),
          {forward.inputs[0],
           f32_tensor(y, rounded(outputs[0])),
           random_f32(y, 2),
           f32_tensor(args.output_types[1].shape, rounded(outputs[1]))},
          {},
          {},
          forward.state,
          forward.path};
}

void set_backward_tolerances(OpCase& c, const OpCase& forward, const Size& s, float dropout) {
  const ReferenceArgs args = reference_args(forward);
  const double d = double(s.depth), keep = enlargement(dropout);
  const double log_tokens = std::log(double(std::max<std::int64_t>(s.tokens, 1)));
  // A weight exp(s - lse) is as inexact as both: lse comes rounded, like s, whose size is sqrt(D).
  const double weight = score_error(s, 1) + log_tokens + std::sqrt(d) + 4;
  // dy . v and dy . y: sums of D products below 4.5 sqrt(D) / 3 in size.
  const double product = keep * std::max(1.0, 4.5 * std::sqrt(d) / 3);
  const double product_error = 2 * keep * 5 * std::max(1.0, d / 3);
  const double gradient = product_error + 2 * product * (weight + 3);
  // A row of weights sums to one; errors down a column are independent of each other (4.5 standard
  // deviations). The chain of T sums of dk and dv rounds sums of the result's size.
  // The heads of a group add to the same keys, independently of each other too.
  const double group = std::sqrt(double(s.heads) / double(s.key_heads()));
  const double mass = std::max(1.0, 4.5 * largest_column_norm(args)) * group;
  const auto expected = attention_bwd_reference(reference_args(c))[0];
  double largest = 1;
  for (double v : expected) largest = std::max(largest, std::abs(v));
  const double chain = 2 * std::sqrt(double(std::max<std::int64_t>(s.tokens, 1))) * group * largest;
  // Rounded to bf16, weights, and gradients of scores, which are p (dp - dy . y), move by 2^-8 of
  // themselves at most, with a standard deviation below 2^-8 / sqrt(3) and independently: down a
  // column by less than `mass`, which has 4.5 of them without the root.
  c.tolerances = {
      {.c = 1,
       .scale = mass * std::max(gradient / std::sqrt(d), keep * (weight + 3)) + chain,
       .rounded = rounds_weights(s) ? mass * std::max(2 * product / std::sqrt(d), keep) : 0}};
}

std::vector<OpCase> attention_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kSizes)
    for (bool causal : {true, false})
      for (float dropout : {0.0f, 0.3f}) {
        const OpCase forward = forward_case(s, causal, dropout);
        OpCase c = backward_case(forward);
        set_backward_tolerances(c, forward, s, dropout);
        cases.push_back(c);
        // With rounded outputs of the forward pass rounding is all that differs.
        OpCase rounded_forward = forward;
        rounded_forward.inputs[0] = rounded_to_bf16(forward.inputs[0]);
        OpCase narrow = backward_case(rounded_forward);
        narrow.name += ", bf16";
        for (std::size_t i : {1, 2}) narrow.inputs[i] = rounded_to_bf16(narrow.inputs[i]);
        narrow.tolerances = c.tolerances;
        cases.push_back(narrow);
      }
  const OpCase forward = forward_case(kManyHeads, true, 0);
  cases.push_back(backward_case(forward));
  set_backward_tolerances(cases.back(), forward, kManyHeads, 0);
  for (const Size& s : kGroups)
    for (bool causal : {true, false})
      for (float dropout : {0.0f, 0.3f}) {
        const OpCase of_group = forward_case(s, causal, dropout);
        cases.push_back(backward_case(of_group));
        set_backward_tolerances(cases.back(), of_group, s, dropout);
      }
  return cases;
}

LOCKSTEP_OP_TEST(Attention, attention, attention_reference, attention_cases)
LOCKSTEP_OP_TEST(AttentionBwd, attention_bwd, attention_bwd_reference, attention_bwd_cases)

TEST(AttentionGradient, FiniteDifferences) {
  for (const bool causal : {true, false})
    for (const int kv_heads : {2, 1}) {
      const float dropout = causal ? 0.4f : 0.0f;
      const OpCase forward = forward_case({2, 4, 2, 3, kv_heads}, causal, dropout);
      const ReferenceArgs args = reference_args(forward);
      const OpCase backward = backward_case(forward);
      ReferenceArgs bwd_args = reference_args(backward);
      const auto outputs = attention_reference(args);
      bwd_args.inputs[1] = outputs[0];
      bwd_args.inputs[3] = outputs[1];
      check_gradient("attention",
                     attention_reference,
                     args,
                     0,
                     bwd_args.inputs[2],
                     0,
                     attention_bwd_reference(bwd_args)[0]);
    }
}

/// Bytes of samples [first, first + count) of a tensor.
HostTensor samples_of(const HostTensor& all, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> dims(all.type.shape.dims().begin(), all.type.shape.dims().end());
  const auto sample = std::ptrdiff_t(all.bytes.size()) / dims[0];
  dims[0] = count;
  return {{Shape(std::span<const std::int64_t>(dims)), all.type.dtype},
          {all.bytes.begin() + first * sample, all.bytes.begin() + (first + count) * sample}};
}

TEST(Attention, ASampleGetsTheSameBitsInAnyMicroBatch) {
  for_each_isa([] {
    const auto run = [](const OpCase& c) {
      return run_kernel(c, [](const KernelSpec& spec) -> std::unique_ptr<Kernel> {
        if (spec.op.kind() == OpKind::attention)
          return cpu::make_attention_kernel(op_cast<ops::Attention>(spec.op), spec);
        return cpu::make_attention_bwd_kernel(op_cast<ops::AttentionBwd>(spec.op), spec);
      });
    };
    for (float dropout : {0.0f, 0.3f}) {
      const OpCase forward = forward_case({5, 101, 2, 12}, true, dropout);
      for (const OpCase& all : {forward, backward_case(forward)}) {
        const auto together = run(all);
        OpCase part = all;
        part.state.first_sample += 2;
        for (HostTensor& input : part.inputs) input = samples_of(input, 2, 2);
        const auto apart = run(part);
        for (std::size_t i = 0; i < apart.size(); ++i)
          EXPECT_EQ(apart[i].bytes, samples_of(together[i], 2, 2).bytes) << "output " << i;
      }
    }
  });
}

TEST(Attention, NotANumberReachesWhatSeesIt) {
  for_each_isa([] {
    OpCase c = forward_case({1, 6, 1, 4}, true, 0);
    c.inputs[0].as<float>()[3 * 12 + 4] = NAN;  // the key of token 3
    const auto y = run_kernel(c, [](const KernelSpec& spec) {
      return cpu::make_attention_kernel(op_cast<ops::Attention>(spec.op), spec);
    })[0];
    for (int i = 0; i < 24; ++i) EXPECT_EQ(std::isnan(y.as<float>()[i]), i >= 12) << i;
  });
}

}  // namespace
}  // namespace lockstep::test
