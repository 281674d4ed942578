// SPDX-License-Identifier: Apache-2.0
// Attention in the sizes of GPT-2, by tensor cores, against double precision: whole outputs by
// their relative L2 distance, since every element may be off by what bf16 rounds.
#include <cmath>

#include "core/ops/attention.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/reference/attention.h"

namespace lockstep::test {
namespace {

/// bf16 rounds by at most 2^-9 of a value: outputs once, weights (and their gradients) once before
/// that. Independent, they add up to 2^-9 sqrt(2 / 3); twice that is granted.
constexpr double kMaxDistance = 2 * 0.816 / 512;

struct LongSize {
  std::int64_t samples, tokens;
  int heads;
  std::int64_t depth;
};

OpCase long_forward(const LongSize& s, bool causal, float dropout) {
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

std::vector<float> to_f32(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

OpCase long_backward(const OpCase& forward, const ReferenceOutputs& outputs) {
  const ReferenceArgs args = reference_args(forward);
  const Shape& y = args.output_types[0].shape;
  return {forward.name,
          std::make_shared<ops::AttentionBwd>(op_cast<ops::Attention>(*forward.op).attrs()),
          {forward.inputs[0],
           rounded_to_bf16(f32_tensor(y, to_f32(outputs[0]))),
           rounded_to_bf16(random_f32(y, 2)),
           f32_tensor(args.output_types[1].shape, to_f32(outputs[1]))},
          {},
          {},
          forward.state,
          forward.path};
}

/// |actual - expected| / |expected|; NaN where one of them has one.
double distance(const std::vector<double>& actual, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

class CudaLongAttention : public CudaTest {
 protected:
  void check(LongSize size, bool causal, float dropout) {
    if (backend().device_class().find("emulated") != std::string::npos) {
      size.tokens /= 4;
      size.samples = 1;
    }
    const OpCase forward = long_forward(size, causal, dropout);
    const ReferenceOutputs outputs = attention_reference(reference_args(forward));
    expect_near(forward, outputs);
    const OpCase backward = long_backward(forward, outputs);
    expect_near(backward, attention_bwd_reference(reference_args(backward)));
  }

 private:
  void expect_near(const OpCase& test_case, const ReferenceOutputs& expected) {
    const auto run = [&] {
      return run_kernel(
          test_case,
          [this](const KernelSpec& spec) { return backend().make_kernel(spec); },
          TestMemory{backend(), /*exact=*/true});
    };
    const auto outputs = run(), again = run();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const double found = distance(outputs[i].to_double(), expected[i]);
      std::cout << name_of(test_case.op->kind()) << ", " << test_case.name << ", output " << i
                << ": distance " << found << "\n";
      EXPECT_LT(found, kMaxDistance) << test_case.name << ", output " << i;
      EXPECT_TRUE(outputs[i].bytes == again[i].bytes)
          << test_case.name << ", output " << i << ": other bits the second time";
    }
  }
};

TEST_F(CudaLongAttention, Of64Columns) { check({2, 1024, 2, 64}, true, 0); }
TEST_F(CudaLongAttention, Of128Columns) { check({2, 1024, 2, 128}, true, 0); }
TEST_F(CudaLongAttention, Of64ColumnsNotCausal) { check({1, 1024, 2, 64}, false, 0); }
TEST_F(CudaLongAttention, Of64ColumnsWithDropout) { check({1, 1024, 2, 64}, true, 0.1f); }

}  // namespace
}  // namespace lockstep::test
