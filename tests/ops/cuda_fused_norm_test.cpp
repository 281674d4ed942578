// SPDX-License-Identifier: Apache-2.0
// Batch norm of the CUDA backend that has taken in ReLU, and a residual: in fp32 the same bits as
// the operators apart; and moments compared with a large mean.
#include <algorithm>
#include <cmath>

#include "core/ops/activations/relu.h"
#include "core/ops/add.h"
#include "core/ops/attention.h"
#include "core/ops/norms/batch_norm.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/reference/batch_norm.h"

namespace lockstep::test {
namespace {

struct Setting {
  Shape x;
  std::int64_t group_size;
};

const std::vector<Setting> kSettings = {{{1, 7}, 0},
                                        {{5, 1}, 0},
                                        {{120, 10}, 0},
                                        {{31, 33}, 8},
                                        {{3, 7, 5, 3}, 0},
                                        {{5, 6, 6, 16}, 2},
                                        {{7, 3, 3, 65}, 3},
                                        {{2, 2, 2, 512}, 0}};

/// Within what the norms return, whose deviation is about 1.
constexpr float kReluLimit = 0.75f;

class CudaFusedNorm : public CudaTest {
 protected:
  std::vector<HostTensor> run(std::shared_ptr<const Operator> op,
                              const std::vector<HostTensor>& inputs) {
    return run_kernel({"fused", std::move(op), inputs},
                      [this](const KernelSpec& spec) { return backend().make_kernel(spec); },
                      {backend()});
  }
  HostTensor relu(const HostTensor& x, float limit = ops::kNoLimit) {
    return run(std::make_shared<ops::Relu>(limit), {x})[0];
  }
  HostTensor add(const HostTensor& a, const HostTensor& b) {
    return run(std::make_shared<ops::Add>(), {a, b})[0];
  }

  /// x, gamma, beta, moments, running mean and variance, sample weight.
  std::vector<HostTensor> forward_inputs(const Setting& s) {
    const Shape c{s.x[-1]};
    const HostTensor x = random_f32(s.x, 1, -2, 3);
    return {x,
            random_f32(c, 2, 0.5f, 1.5f),
            random_f32(c, 3),
            run(std::make_shared<ops::BatchNormMoments>(s.group_size), {x})[0],
            random_f32(c, 4),
            random_f32(c, 5, 0.5f, 2.0f),
            f32_tensor({1}, {1.0f / 64})};
  }
  std::vector<HostTensor> normalize(const Setting& s,
                                    const std::vector<HostTensor>& inputs,
                                    bool relu_too,
                                    bool residual,
                                    float limit = ops::kNoLimit) {
    return run(
        std::make_shared<ops::BatchNormNormalize>(s.group_size, 1e-5f, relu_too, residual, limit),
        inputs);
  }
  std::vector<HostTensor> bwd(const Setting& s,
                              const std::vector<HostTensor>& forward,
                              const HostTensor& saved,
                              const HostTensor& dy,
                              bool relu_too,
                              float limit = ops::kNoLimit) {
    auto results = run(std::make_shared<ops::BatchNormBwdSums>(s.group_size, relu_too, limit),
                       {forward[0], dy, saved});
    results.push_back(run(std::make_shared<ops::BatchNormBwdData>(s.group_size, relu_too, limit),
                          {forward[0], dy, forward[1], saved, forward[3], results[0]})[0]);
    return results;
  }
};

TEST_F(CudaFusedNorm, ForwardHasTheBitsOfItsParts) {
  for (const Setting& s : kSettings) {
    std::vector<HostTensor> inputs = forward_inputs(s);
    const auto plain = normalize(s, inputs, false, false);
    const auto fused = normalize(s, inputs, true, false);
    EXPECT_EQ(fused[0].bytes, relu(plain[0]).bytes) << s.x.to_string();
    EXPECT_EQ(normalize(s, inputs, true, false, kReluLimit)[0].bytes,
              relu(plain[0], kReluLimit).bytes)
        << s.x.to_string() << " with a limit";
    for (std::size_t i = 2; i < plain.size(); ++i)
      EXPECT_EQ(fused[i].bytes, plain[i].bytes) << s.x.to_string() << " output " << i;
    inputs.push_back(random_f32(s.x, 7));
    EXPECT_EQ(normalize(s, inputs, true, true)[0].bytes, relu(add(plain[0], inputs.back())).bytes)
        << s.x.to_string() << " residual";
  }
}

TEST_F(CudaFusedNorm, BackwardHasTheBitsOfItsParts) {
  for (const Setting& s : kSettings)
    for (const float limit : {ops::kNoLimit, kReluLimit}) {
      const std::vector<HostTensor> inputs = forward_inputs(s);
      const auto plain = normalize(s, inputs, false, false);
      const auto fused = normalize(s, inputs, true, false, limit);
      const HostTensor dy = random_f32(s.x, 6);
      const HostTensor masked = run(std::make_shared<ops::ReluBwd>(limit), {dy, fused[0]})[0];
      const auto apart = bwd(s, inputs, plain[1], masked, false);
      const auto together = bwd(s, inputs, fused[1], dy, true, limit);
      for (std::size_t i = 0; i < apart.size(); ++i)
        EXPECT_EQ(together[i].bytes, apart[i].bytes)
            << s.x.to_string() << " limit " << limit << " output " << i;
    }
}

TEST_F(CudaFusedNorm, BackwardBehindAResidualHasTheBitsOfItsPartsInFp32AndBf16) {
  for (const Setting& s : kSettings)
    for (const bool two_uses : {false, true}) {
      const std::int64_t groups = ops::batch_norm_groups(s.x[0], s.group_size);
      OpCase fp32{"residual",
                  std::make_shared<ops::BatchNormResidualBwdSums>(s.group_size, two_uses),
                  {random_f32(s.x, 1),
                   random_f32(s.x, 2),
                   random_f32({groups, 2, s.x[-1]}, 4, 0.5f, 1.5f),
                   relu(random_f32(s.x, 3)),
                   random_f32(s.x, 5)}};
      if (!two_uses) fp32.inputs.pop_back();
      for (const OpCase& c : {fp32, *bf16_variant(fp32)}) {
        const HostTensor dy = two_uses ? add(c.inputs[1], c.inputs[4]) : c.inputs[1];
        const HostTensor dz = run(std::make_shared<ops::ReluBwd>(), {dy, c.inputs[3]})[0];
        auto apart = run(std::make_shared<ops::BatchNormBwdSums>(s.group_size),
                         {c.inputs[0], dz, c.inputs[2]});
        apart.push_back(dz);
        const auto together = run(c.op, c.inputs);
        for (std::size_t i = 0; i < apart.size(); ++i)
          EXPECT_EQ(together[i].bytes, apart[i].bytes)
              << c.name << " " << s.x.to_string() << " output " << i;
      }
    }
}

TEST_F(CudaFusedNorm, InferenceHasTheBitsOfItsParts) {
  for (const Setting& s : kSettings) {
    const std::vector<HostTensor> all = forward_inputs(s);
    std::vector<HostTensor> inputs{all[0], all[1], all[2], all[4], all[5]};
    const auto inference = [&](bool relu_too, bool residual, float limit = ops::kNoLimit) {
      return run(std::make_shared<ops::BatchNormInference>(1e-5f, relu_too, residual, limit),
                 inputs)[0];
    };
    const HostTensor plain = inference(false, false);
    EXPECT_EQ(inference(true, false).bytes, relu(plain).bytes) << s.x.to_string();
    EXPECT_EQ(inference(true, false, kReluLimit).bytes, relu(plain, kReluLimit).bytes)
        << s.x.to_string();
    inputs.push_back(random_f32(s.x, 7));
    EXPECT_EQ(inference(true, true).bytes, relu(add(plain, inputs.back())).bytes)
        << s.x.to_string();
  }
}

struct Outliers {
  Shape x;
  std::int64_t group_size;
};

TEST_F(CudaFusedNorm, MomentsDoNotCancelBesideALargeMean) {
  // Deviations of 1/sqrt(3) compared with means of 0, 1000, .. 4000, the first values outliers:
  // chunks of four channels and of one, threads that walk over one batch of rows and over several.
  for (const Outliers& c : {Outliers{{64, 5, 5, 4}, 0},
                            Outliers{{64, 5, 5, 5}, 0},
                            Outliers{{18550, 33}, 70},
                            Outliers{{29200, 128}, 146}}) {
    const std::int64_t channels = c.x[-1];
    HostTensor x = random_f32(c.x, 1);
    for (std::int64_t i = 0; i < x.type.elems(); ++i)
      x.as<float>()[i] += 1000.0f * float(i % channels % 5);
    for (std::int64_t i = 0; i < 10 * channels; ++i) x.as<float>()[i] = -3000.0f;
    const OpCase test_case{"", std::make_shared<ops::BatchNormMoments>(c.group_size), {x}};
    const auto got = run(test_case.op, {x})[0].to_double();
    const auto want = batch_norm_moments_reference(reference_args(test_case))[0];
    for (std::size_t i = 0; i < want.size(); ++i)
      // fp32 sums of at most eight deviations, squared, and the rounding of the result.
      ASSERT_NEAR(got[i], want[i], 16 * 0x1p-24 * std::max(1.0, std::abs(want[i])))
          << c.x.to_string() << " element " << i;
  }
}

TEST_F(CudaFusedNorm, WhatIsNotFiniteReachesTheSumsOfItsChannel) {
  // In whole batches of rows and in a last one; in packs and single channels.
  for (const Shape& shape : {Shape{3000, 4}, Shape{3000, 3}, Shape{2, 8}})
    for (const float value : {NAN, INFINITY, -INFINITY})
      for (const std::int64_t row : {std::int64_t{0}, shape[0] / 2, shape[0] - 1}) {
        const std::int64_t channels = shape[-1];
        const HostTensor finite = random_f32(shape, 1), saved = random_f32({1, 2, channels}, 2);
        HostTensor bad = finite;
        bad.as<float>()[row * channels + 1] = value;
        const auto moments = run(std::make_shared<ops::BatchNormMoments>(0), {bad})[0];
        const auto of_x = run(std::make_shared<ops::BatchNormBwdSums>(0), {bad, finite, saved})[0];
        const auto of_dy = run(std::make_shared<ops::BatchNormBwdSums>(0), {finite, bad, saved})[0];
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::string what =
              fmt::format("{} {} row {} channel {}", shape.to_string(), value, row, c);
          const bool is_bad = c == 1;
          EXPECT_EQ(std::isfinite(moments.as<float>()[channels + c]), !is_bad) << what;
          EXPECT_EQ(std::isfinite(moments.as<float>()[2 * channels + c]), !is_bad) << what;
          EXPECT_TRUE(std::isfinite(of_x.as<float>()[c])) << what;
          EXPECT_EQ(std::isfinite(of_x.as<float>()[channels + c]), !is_bad) << what;
          EXPECT_EQ(std::isfinite(of_dy.as<float>()[c]), !is_bad) << what;
          EXPECT_EQ(std::isfinite(of_dy.as<float>()[channels + c]), !is_bad) << what;
        }
      }
}

TEST_F(CudaFusedNorm, NotANumberReachesWhatSeesIt) {
  const Shape c{4};
  HostTensor x = random_f32({2, 4}, 1);
  x.as<float>()[1] = NAN;
  for (bool relu_too : {false, true}) {
    const auto y = run(
        std::make_shared<ops::BatchNormInference>(1e-5f, relu_too),
        {x, random_f32(c, 2), random_f32(c, 3), random_f32(c, 4), random_f32(c, 5, 0.5f, 2.0f)})[0];
    for (int i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(y.as<float>()[i]), i == 1) << i;
  }
  // The key of token 3 of six, causal: what the later queries get.
  HostTensor qkv = random_f32({1, 6, 12}, 2);
  qkv.as<float>()[3 * 12 + 4] = NAN;
  const auto attended = run(
      std::make_shared<ops::Attention>(ops::AttentionAttrs{.heads = 1, .causal = true}), {qkv})[0];
  for (int i = 0; i < 24; ++i) EXPECT_EQ(std::isnan(attended.as<float>()[i]), i >= 12) << i;
}

}  // namespace
}  // namespace lockstep::test
