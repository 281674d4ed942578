// SPDX-License-Identifier: Apache-2.0
// That our descriptions of attention mean attention, and that plans are run on the right tensors:
// by a fake cuDNN, which computes each operation as it is defined.
#include "kernels/cuda/libraries/cudnn/cudnn_attention.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/device/algorithm_key.h"
#include "kernels/cuda/libraries/cudnn/attention_graph.h"
#include "tests/libraries/fake_cudnn/fake_cudnn.h"
#include "tests/ops/cuda_long_attention.h"

namespace lockstep::cuda {
namespace {

using test::distance;
using test::HostTensor;
using test::OpCase;

constexpr std::int64_t kSamples = 4, kTokens = 20, kHeads = 6, kDepth = 8;

FusedAttentionSpec spec_of(AttentionPass pass, bool causal) {
  return {.pass = pass,
          .samples = kSamples,
          .tokens = kTokens,
          .heads = kHeads,
          .depth = kDepth,
          .causal = causal};
}

/// A case, what it is to give, and memory for what it does.
struct Example {
  explicit Example(bool causal)
      : forward(test::long_forward({kSamples, kTokens, int(kHeads), kDepth}, causal, 0)),
        outputs(attention_reference(test::reference_args(forward))),
        backward(test::long_backward(forward, outputs)),
        gradients(attention_bwd_reference(test::reference_args(backward))),
        y(backward.inputs[1]),
        lse(backward.inputs[3]),
        dqkv(forward.inputs[0]) {
    // What is not written stays a NaN.
    std::ranges::fill(dqkv.bytes, std::byte{0xff});
  }

  /// Runs `kernel`; `forward_pass`: into y and lse, which are cleared.
  void run(FusedAttention& kernel, bool forward_pass) {
    if (forward_pass)
      for (HostTensor* result : {&y, &lse}) std::ranges::fill(result->bytes, std::byte{0xff});
    constexpr std::size_t kGuard = 64;
    std::vector<std::byte> memory(kernel.workspace_bytes() + kWorkspaceAlignment + kGuard);
    void* workspace = memory.data();
    std::size_t room = memory.size();
    std::align(kWorkspaceAlignment, 1, workspace, room);
    const auto guard = static_cast<std::byte*>(workspace) + kernel.workspace_bytes();
    std::fill_n(guard, kGuard, std::byte{0x5a});
    kernel.run({.qkv = forward.inputs[0].bytes.data(),
                .y = y.bytes.data(),
                .lse = lse.as<float>(),
                .dy = backward.inputs[2].bytes.data(),
                .dqkv = dqkv.bytes.data(),
                .workspace = workspace});
    EXPECT_EQ(std::count(guard, guard + kGuard, std::byte{0x5a}), std::ptrdiff_t(kGuard));
  }

  void expect_near(bool forward_pass) const {
    if (forward_pass) {
      EXPECT_LT(distance(y.to_double(), outputs[0]), test::kMaxDistance);
      EXPECT_LT(distance(lse.to_double(), outputs[1]), 0x1p-20);
    } else {
      EXPECT_LT(distance(dqkv.to_double(), gradients[0]), test::kMaxDistance);
    }
  }

  OpCase forward;
  test::ReferenceOutputs outputs;
  OpCase backward;
  test::ReferenceOutputs gradients;
  HostTensor y, lse, dqkv;
};

TEST(CudnnAttention, ComputesWhatItSaysWholeAndInParts) {
  for (const bool causal : {true, false})
    for (const bool forward : {true, false})
      for (const AttentionCut cut : {AttentionCut{4, 6}, {2, 6}, {1, 3}, {1, 1}, {2, 3}}) {
        SCOPED_TRACE(fmt::format("causal {}, forward {}, parts of {} samples and {} heads",
                                 causal,
                                 forward,
                                 cut.samples,
                                 cut.heads));
        const FusedAttentionSpec spec =
            spec_of(forward ? AttentionPass::forward : AttentionPass::backward, causal);
        PlanOffers offers = offer_plans(nullptr, describe_attention(spec, cut, "x"), true, "x", 4);
        ASSERT_EQ(offers.plans.size(), 1u);
        const auto built = std::make_shared<const BuiltAttention>(
            BuiltAttention{nullptr, std::move(offers.plans[0])});
        const auto kernel = make_cudnn_attention(built, spec, cut, "x");
        Example example(causal);
        example.run(*kernel, forward);
        example.expect_near(forward);
      }
}

TEST(CudnnAttention, AsksForWorkspaceToTheByte) {
  const auto bytes = [](AttentionPass pass) {
    return offer_attention(Device{}, spec_of(pass, true), "x").kernels.at(0)->workspace_bytes();
  };
  const std::size_t plans = 512;  // kFakeWorkspace at the next multiple of 256
  EXPECT_EQ(bytes(AttentionPass::forward), plans);
  EXPECT_EQ(bytes(AttentionPass::backward), plans + kSamples * kTokens * kHeads * 4);
}

TEST(CudnnAttention, IsBuiltOnceForAllLayersOfAShape) {
  const Device device;
  const FusedAttentionSpec spec = spec_of(AttentionPass::forward, true);
  const std::string text = offer_attention(device, spec, "x").texts.at(0);
  EXPECT_EQ(text, "engine 7 workspace 300 knobs");
  const auto first = build_attention(device, spec, text, "x");
  const auto second = build_attention(device, spec, text, "x");
  EXPECT_EQ(first->built(), second->built());
  EXPECT_EQ(device.algorithms->built(algorithm_key(device, spec)), first->built());
  for (FusedAttention* kernel : {first.get(), second.get()}) {
    Example example(true);
    example.run(*kernel, true);
    example.expect_near(true);
  }
}

TEST(CudnnAttention, OfAnotherWorkspaceThanRank0sIsAnError) {
  EXPECT_THROW(build_attention(Device{},
                               spec_of(AttentionPass::forward, true),
                               "engine 7 workspace 301 knobs",
                               "attention h.0.attn"),
               EnvironmentError);
}

TEST(CudnnAttention, IsNotOfferedWhereCudnnIsKnownToLackIt) {
  FusedAttentionSpec spec = spec_of(AttentionPass::forward, true);
  spec.depth = 12;
  const AttentionOffers offers = offer_attention(Device{}, spec, "x");
  EXPECT_TRUE(offers.kernels.empty());
  EXPECT_THAT(offers.why_none, ::testing::HasSubstr("12 columns"));
}

}  // namespace
}  // namespace lockstep::cuda
