// SPDX-License-Identifier: Apache-2.0
// Attention in the sizes of GPT-2, by tensor cores, against double precision: whole outputs by
// their relative L2 distance, since every element may be off by what bf16 rounds.
#include "tests/ops/cuda_long_attention.h"

#include <iostream>

#include "tests/ops/cuda_fixture.h"

namespace lockstep::test {
namespace {

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
