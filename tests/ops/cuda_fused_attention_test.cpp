// SPDX-License-Identifier: Apache-2.0
// A library's fused attention (cuDNN's, on a GPU) in the place of the own kernel: what it offers
// agrees with the own kernel, and every offer, whether it is faster or not, is run from the book of
// choices and compared with double precision.
#include <algorithm>
#include <gmock/gmock.h>
#include <iostream>

#include "tests/ops/cuda_fixture.h"
#include "tests/ops/cuda_long_attention.h"

namespace lockstep::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Outputs = std::vector<HostTensor>;

/// The entry of the one attention in a book of choices: "key\ttext\twhy none\n".
struct Entry {
  std::string key, text, why_none;

  explicit Entry(const std::string& choices) {
    const std::size_t first = choices.find('\t'), second = choices.find('\t', first + 1);
    key = choices.substr(0, first);
    text = choices.substr(first + 1, second - first - 1);
    why_none = choices.substr(second + 1, choices.find('\n') - second - 1);
  }
  /// The offers that were not taken as they are slower: "text: 0.3 ms, where the own kernel takes
  /// 0.2 ms; text: ...".
  std::vector<std::string> slower() const {
    std::vector<std::string> texts;
    for (std::size_t at = 0; at < why_none.size();) {
      const std::size_t end = std::min(why_none.find("; ", at), why_none.size());
      const std::string reason = why_none.substr(at, end - at);
      if (reason.find("where the own kernel takes") != std::string::npos)
        texts.push_back(reason.substr(0, reason.find(": ")));
      at = end + 2;
    }
    return texts;
  }
};

class CudaFusedAttention : public CudaTest {
 protected:
  void check(LongSize size, bool causal) {
    if (backend().device_class().find("emulated") != std::string::npos) {
      size.tokens /= 32;
      size.samples = 1;
    }
    const OpCase forward = long_forward(size, causal, 0);
    const ReferenceOutputs outputs = attention_reference(reference_args(forward));
    check_offers(forward, outputs);
    const OpCase backward = long_backward(forward, outputs);
    check_offers(backward, attention_bwd_reference(reference_args(backward)));
  }

 private:
  Outputs run(const OpCase& test_case) {
    return run_kernel(
        test_case,
        [this](const KernelSpec& spec) { return backend().make_kernel(spec); },
        TestMemory{backend(), /*exact=*/true});
  }

  void check_offers(const OpCase& test_case, const ReferenceOutputs& expected) {
    backend().take_choices("");
    backend().time_algorithms(true);
    const Outputs timed = run(test_case);
    backend().time_algorithms(false);
    const Entry entry(backend().choices());
    std::cout << entry.key << ": " << (entry.text.empty() ? "own kernel" : entry.text)
              << (entry.why_none.empty() ? "" : ", as " + entry.why_none) << "\n";
    // That would be a graph that does not say what the own kernel computes.
    EXPECT_THAT(backend().timing_note(), Not(HasSubstr("differs")));
    std::vector<std::string> texts = entry.slower();
    if (!entry.text.empty()) {
      texts.push_back(entry.text);
      expect_near(test_case, "as timed", timed, expected);
    }
    for (const std::string& text : texts) {
      backend().take_choices(entry.key + '\t' + text + "\t\n");
      const Outputs outputs = run(test_case), again = run(test_case);
      expect_near(test_case, text, outputs, expected);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        EXPECT_TRUE(outputs[i].bytes == again[i].bytes)
            << text << ", output " << i << ": other bits the second time";
        EXPECT_TRUE(text != entry.text || outputs[i].bytes == timed[i].bytes) << text;
      }
    }
  }

  static void expect_near(const OpCase& test_case,
                          const std::string& text,
                          const Outputs& outputs,
                          const ReferenceOutputs& expected) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const double found = distance(outputs[i].to_double(), expected[i]);
      std::cout << "  " << text << ", output " << i << ": distance " << found << "\n";
      EXPECT_LT(found, kMaxDistance) << test_case.name << ", " << text << ", output " << i;
    }
  }
};

TEST_F(CudaFusedAttention, Of64Columns) { check({2, 1024, 2, 64}, true); }
TEST_F(CudaFusedAttention, Of64ColumnsNotCausal) { check({2, 1024, 2, 64}, false); }
TEST_F(CudaFusedAttention, Of128Columns) { check({2, 512, 2, 128}, true); }
// The own kernel multiplies these in fp32.
TEST_F(CudaFusedAttention, Of256Columns) { check({1, 256, 2, 256}, true); }
TEST_F(CudaFusedAttention, OfTokensThatFillNoTile) { check({3, 1000, 3, 80}, true); }
// cuDNN's workspace of all heads at once is larger than is granted, so that it runs in parts.
TEST_F(CudaFusedAttention, InParts) { check({1, 4096, 8, 8}, true); }

}  // namespace
}  // namespace lockstep::test
