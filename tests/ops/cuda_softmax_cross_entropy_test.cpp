// SPDX-License-Identifier: Apache-2.0
// What the shared cases of the loss do not say about its CUDA kernel: ties and values far out, in
// rows of every number of threads.
#include <cmath>

#include "core/ops/losses/softmax_cross_entropy.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kClasses[] = {3, 12, 40, 700, 5003};

class CudaSoftmaxCrossEntropy : public CudaTest {
 protected:
  std::vector<HostTensor> run(std::int64_t classes,
                              const std::vector<float>& logits,
                              const std::vector<std::int32_t>& labels,
                              std::optional<std::int32_t> ignored = {}) {
    const auto rows = std::int64_t(labels.size());
    const OpCase test_case{
        "x",
        std::make_shared<ops::SoftmaxCrossEntropy>(0.0f, true, ignored),
        {f32_tensor({rows, classes}, logits), i32_tensor({rows}, labels), f32_tensor({1}, {1})}};
    return run_kernel(
        test_case,
        [this](const KernelSpec& spec) { return backend().make_kernel(spec); },
        TestMemory{backend()});
  }
};

TEST_F(CudaSoftmaxCrossEntropy, TheFirstOfEqualLogitsIsTheAnswer) {
  for (std::int64_t classes : kClasses)
    for (std::int64_t first : {std::int64_t{0}, classes / 2 - 1, classes - 2}) {
      std::vector<float> logits(std::size_t(2 * classes), -1.0f);
      for (std::int64_t row = 0; row < 2; ++row)
        for (std::int64_t k : {first, first + 1, classes - 1})
          logits[std::size_t(row * classes + k)] = 2.5f;
      const auto correct = [&](std::int64_t label) {
        return run(classes, logits, {std::int32_t(label), std::int32_t(label)})[1].to_double()[0];
      };
      EXPECT_EQ(correct(first), 2) << first << " of " << classes;
      EXPECT_EQ(correct(first + 1), 0) << first << " of " << classes;
    }
}

TEST_F(CudaSoftmaxCrossEntropy, ExtremeLogits) {
  for (std::int64_t classes : kClasses) {
    std::vector<float> logits(std::size_t(classes), -3e38f);
    logits[1] = 3e38f;
    auto outputs = run(classes, logits, {1});
    EXPECT_EQ(outputs[0].to_double()[0], 0);
    EXPECT_EQ(outputs[1].to_double()[0], 1);
    for (double d : outputs[2].to_double()) ASSERT_EQ(d, 0);
    logits[0] = -INFINITY;
    outputs = run(classes, logits, {1});
    EXPECT_EQ(outputs[0].to_double()[0], 0);
    EXPECT_EQ(run(classes, logits, {0})[0].to_double()[0], INFINITY);
    logits[std::size_t(classes) - 1] = NAN;
    EXPECT_TRUE(std::isnan(run(classes, logits, {1})[0].to_double()[0]));
  }
}

TEST_F(CudaSoftmaxCrossEntropy, IgnoredRowsMayHoldAnything) {
  for (std::int64_t classes : kClasses) {
    std::vector<float> logits(std::size_t(3 * classes), 0.5f);
    const auto clean = run(classes, logits, {0, -1, 1}, -1);
    for (std::int64_t k = 0; k < classes; ++k)
      logits[std::size_t(classes + k)] = k % 2 == 0 ? NAN : INFINITY;
    const auto outputs = run(classes, logits, {0, -1, 1}, -1);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      EXPECT_EQ(outputs[i].bytes, clean[i].bytes) << "output " << i;
  }
}

}  // namespace
}  // namespace lockstep::test
