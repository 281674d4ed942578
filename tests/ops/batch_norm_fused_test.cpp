// SPDX-License-Identifier: Apache-2.0
// Batch norm that has taken in ReLU, and a residual: in fp32 the same bits as the operators apart.
#include <cstring>
#include <gtest/gtest.h>

#include "core/ops/activations/relu.h"
#include "core/ops/add.h"
#include "core/ops/norms/batch_norm.h"
#include "kernels/cpu/kernel_list.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

struct FusedSetting {
  Shape x;
  std::int64_t group_size;
};

const std::vector<FusedSetting> kFusedSettings = {{{1, 7}, 0},
                                                  {{5, 1}, 0},
                                                  {{120, 10}, 0},
                                                  {{31, 33}, 8},
                                                  {{3, 7, 5, 3}, 0},
                                                  {{5, 6, 6, 16}, 2},
                                                  {{7, 3, 3, 65}, 3},
                                                  {{2, 2, 2, 513}, 0}};

template <typename Op, typename Factory>
std::vector<HostTensor> run(const std::shared_ptr<Op>& op,
                            const std::vector<HostTensor>& inputs,
                            Factory factory) {
  const OpCase test_case{"fused", op, inputs};
  return run_kernel(test_case,
                    [&](const KernelSpec& spec) { return factory(op_cast<Op>(spec.op), spec); });
}

HostTensor relu(const HostTensor& x, float limit = ops::kNoLimit) {
  return run(std::make_shared<ops::Relu>(limit), {x}, cpu::make_relu_kernel)[0];
}
HostTensor add(const HostTensor& a, const HostTensor& b) {
  return run(std::make_shared<ops::Add>(), {a, b}, cpu::make_add_kernel)[0];
}

/// x, gamma, beta, moments, running mean and variance, sample weight.
std::vector<HostTensor> forward_inputs(const FusedSetting& s) {
  const Shape c{s.x[-1]};
  const HostTensor x = random_f32(s.x, 1, -2, 3);
  const HostTensor moments = run(std::make_shared<ops::BatchNormMoments>(s.group_size),
                                 {x},
                                 cpu::make_batch_norm_moments_kernel)[0];
  return {x,
          random_f32(c, 2, 0.5f, 1.5f),
          random_f32(c, 3),
          moments,
          random_f32(c, 4),
          random_f32(c, 5, 0.5f, 2.0f),
          f32_tensor({1}, {1.0f / 64})};
}

std::vector<HostTensor> normalize(const FusedSetting& s,
                                  const std::vector<HostTensor>& inputs,
                                  bool relu_too,
                                  bool residual,
                                  float limit = ops::kNoLimit) {
  return run(
      std::make_shared<ops::BatchNormNormalize>(s.group_size, 1e-5f, relu_too, residual, limit),
      inputs,
      cpu::make_batch_norm_normalize_kernel);
}

void expect_equal(const HostTensor& a, const HostTensor& b, const std::string& what) {
  EXPECT_EQ(a.bytes, b.bytes) << what;
}

/// Within what the norms return, whose deviation is about 1.
constexpr float kReluLimit = 0.75f;

std::vector<std::pair<FusedSetting, float>> with_limits() {
  std::vector<std::pair<FusedSetting, float>> all;
  for (const FusedSetting& s : kFusedSettings)
    for (const float limit : {ops::kNoLimit, kReluLimit}) all.emplace_back(s, limit);
  return all;
}

TEST(FusedBatchNorm, ForwardHasTheBitsOfItsParts) {
  for_each_isa([] {
    for (const FusedSetting& s : kFusedSettings) {
      std::vector<HostTensor> inputs = forward_inputs(s);
      const auto plain = normalize(s, inputs, false, false);
      const auto fused = normalize(s, inputs, true, false);
      expect_equal(fused[0], relu(plain[0]), s.x.to_string());
      expect_equal(normalize(s, inputs, true, false, kReluLimit)[0],
                   relu(plain[0], kReluLimit),
                   s.x.to_string() + " with a limit");
      for (std::size_t i = 2; i < plain.size(); ++i) expect_equal(fused[i], plain[i], "statistics");
      const HostTensor residual = random_f32(s.x, 7);
      inputs.push_back(residual);
      expect_equal(normalize(s, inputs, true, true)[0],
                   relu(add(plain[0], residual)),
                   s.x.to_string() + " residual");
    }
  });
}

TEST(FusedBatchNorm, BackwardHasTheBitsOfItsParts) {
  for_each_isa([] {
    for (const auto& [s, limit] : with_limits()) {
      const std::vector<HostTensor> inputs = forward_inputs(s);
      const auto plain = normalize(s, inputs, false, false);
      const auto fused = normalize(s, inputs, true, false, limit);
      const HostTensor dy = random_f32(s.x, 6);
      const HostTensor masked =
          run(std::make_shared<ops::ReluBwd>(limit), {dy, fused[0]}, cpu::make_relu_bwd_kernel)[0];
      const auto plain_sums = run(std::make_shared<ops::BatchNormBwdSums>(s.group_size),
                                  {inputs[0], masked, plain[1]},
                                  cpu::make_batch_norm_bwd_sums_kernel);
      const auto fused_sums =
          run(std::make_shared<ops::BatchNormBwdSums>(s.group_size, true, limit),
              {inputs[0], dy, fused[1]},
              cpu::make_batch_norm_bwd_sums_kernel);
      for (std::size_t i = 0; i < plain_sums.size(); ++i)
        expect_equal(fused_sums[i], plain_sums[i], s.x.to_string() + " sums");
      const auto plain_dx = run(std::make_shared<ops::BatchNormBwdData>(s.group_size),
                                {inputs[0], masked, inputs[1], plain[1], inputs[3], plain_sums[0]},
                                cpu::make_batch_norm_bwd_data_kernel);
      const auto fused_dx = run(std::make_shared<ops::BatchNormBwdData>(s.group_size, true, limit),
                                {inputs[0], dy, inputs[1], fused[1], inputs[3], fused_sums[0]},
                                cpu::make_batch_norm_bwd_data_kernel);
      expect_equal(fused_dx[0], plain_dx[0], s.x.to_string() + " dx");
    }
  });
}

TEST(FusedBatchNorm, InferenceHasTheBitsOfItsParts) {
  for_each_isa([] {
    for (const FusedSetting& s : kFusedSettings) {
      const std::vector<HostTensor> all = forward_inputs(s);
      std::vector<HostTensor> inputs{all[0], all[1], all[2], all[4], all[5]};
      const auto inference = [&](bool relu_too, bool residual, float limit = ops::kNoLimit) {
        return run(std::make_shared<ops::BatchNormInference>(1e-5f, relu_too, residual, limit),
                   inputs,
                   cpu::make_batch_norm_inference_kernel)[0];
      };
      const HostTensor plain = inference(false, false), residual = random_f32(s.x, 7);
      expect_equal(inference(true, false), relu(plain), s.x.to_string());
      expect_equal(inference(true, false, kReluLimit), relu(plain, kReluLimit), s.x.to_string());
      inputs.push_back(residual);
      expect_equal(inference(true, true), relu(add(plain, residual)), s.x.to_string());
    }
  });
}

}  // namespace
}  // namespace lockstep::test
