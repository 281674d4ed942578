// SPDX-License-Identifier: Apache-2.0
// When a library's attention takes the place of the own kernel, and what is said where it does not.
#include <algorithm>
#include <bit>
#include <cmath>
#include <gmock/gmock.h>

#include "kernels/cuda/attention/attention_difference.h"
#include "lockstep/error.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/cuda_long_attention.h"
#include "tests/support/cuda_emulator/library_limits.h"
#include "tests/support/cuda_emulator/streams.h"

namespace lockstep::test {
namespace {

using cuda::EmulatedOffer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// A forward or backward node, its inputs and its kernel's outputs.
struct KernelRun {
  std::vector<HostTensor> outputs;
  std::size_t workspace = 0;
};

class CudaAttentionChoice : public CudaTest {
 protected:
  void TearDown() override { cuda::library_limits() = {}; }

  static OpCase forward_case(bool causal = true, float dropout = 0, std::int64_t tokens = 37) {
    return long_forward({2, tokens, 2, 16}, causal, dropout);
  }
  static OpCase backward_case(bool causal = true) {
    const OpCase forward = forward_case(causal);
    return long_backward(forward, attention_reference(reference_args(forward)));
  }

  KernelRun run(const OpCase& test_case) {
    KernelRun result;
    result.outputs = run_kernel(
        test_case,
        [&](const KernelSpec& spec) {
          auto kernel = backend().make_kernel(spec);
          result.workspace = kernel->workspace_bytes();
          return kernel;
        },
        TestMemory{backend(), /*exact=*/true});
    return result;
  }
  /// With the library's attention as `offers`; forgets what was chosen before.
  KernelRun timed(const OpCase& test_case, std::vector<EmulatedOffer> offers) {
    cuda::library_limits().attention = std::move(offers);
    backend().take_choices("");
    backend().time_algorithms(true);
    KernelRun result = run(test_case);
    backend().time_algorithms(false);
    return result;
  }
  KernelRun own(const OpCase& test_case) {
    backend().take_choices("");
    backend().time_algorithms(false);
    return run(test_case);
  }

  static bool same_bits(const KernelRun& a, const KernelRun& b) {
    return std::ranges::equal(a.outputs, b.outputs, {}, &HostTensor::bytes, &HostTensor::bytes);
  }
  static void expect_near(const OpCase& test_case, const KernelRun& run) {
    const ReferenceArgs args = reference_args(test_case);
    const ReferenceOutputs expected = test_case.op->kind() == OpKind::attention
                                          ? attention_reference(args)
                                          : attention_bwd_reference(args);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(distance(run.outputs[i].to_double(), expected[i]), kMaxDistance) << i;
  }

  /// The own kernel runs in the place of the one that is offered, whose rejection is `why`.
  template <typename Matcher>
  void expect_rejected(const OpCase& test_case, EmulatedOffer offer, const Matcher& why) {
    const KernelRun expected = own(test_case), found = timed(test_case, {offer});
    EXPECT_TRUE(same_bits(found, expected));
    EXPECT_EQ(found.workspace, expected.workspace);
    EXPECT_THAT(backend().choices(), AllOf(StartsWith("attention "), HasSubstr("\t\tkernel 0: ")));
    EXPECT_THAT(backend().choices(), why);
    // As text and in the book: a resumed run, and other ranks, keep the own kernel.
    const std::string choices = backend().choices();
    backend().take_choices(choices);
    EXPECT_TRUE(same_bits(run(test_case), expected));
  }
};

TEST_F(CudaAttentionChoice, IsTheOwnKernelUnlessTimed) {
  for (const OpCase& test_case : {forward_case(), backward_case()}) {
    const KernelRun with = own(test_case);
    EXPECT_THAT(backend().choices(), IsEmpty());
    cuda::library_limits().attention = {};
    EXPECT_TRUE(same_bits(own(test_case), with));
    EXPECT_THAT(backend().timing_note(), IsEmpty());
  }
}

TEST_F(CudaAttentionChoice, IsTheLibrarysWhereThatAgreesAndIsFaster) {
  for (const bool causal : {true, false})
    for (const OpCase& test_case : {forward_case(causal), backward_case(causal)}) {
      const KernelRun expected = own(test_case), found = timed(test_case, {EmulatedOffer::good});
      EXPECT_THAT(backend().choices(), HasSubstr("\tkernel 0\t\n"));
      EXPECT_FALSE(same_bits(found, expected));
      expect_near(test_case, found);
      EXPECT_EQ(found.workspace, 100u);  // the emulated library's
    }
  EXPECT_THAT(backend().timing_note(),
              AllOf(StartsWith("4 operators timed"),
                    HasSubstr("4 run another algorithm"),
                    Not(HasSubstr("rejected"))));
}

TEST_F(CudaAttentionChoice, RejectsOtherBitsInASecondRun) {
  for (const OpCase& test_case : {forward_case(), backward_case()})
    expect_rejected(test_case, EmulatedOffer::unsteady, HasSubstr("other bits in a second run"));
}

TEST_F(CudaAttentionChoice, RejectsWhatDoesNotRun) {
  for (const OpCase& test_case : {forward_case(), backward_case()})
    expect_rejected(test_case, EmulatedOffer::fails, HasSubstr("the emulated library fails"));
}

TEST_F(CudaAttentionChoice, RejectsWhatIsSlower) {
  expect_rejected(
      forward_case(), EmulatedOffer::slow, HasSubstr(" ms, where the own kernel takes "));
}

TEST_F(CudaAttentionChoice, RejectsWhatDiffersFromTheOwnKernel) {
  for (const bool causal : {true, false}) {
    const OpCase forward = forward_case(causal), backward = backward_case(causal);
    expect_rejected(forward, EmulatedOffer::wrong_last_token, HasSubstr("y of token 36 is "));
    expect_rejected(backward, EmulatedOffer::wrong_last_token, HasSubstr(" of token 36 is "));
    expect_rejected(forward, EmulatedOffer::wrong_logarithm, HasSubstr("lse is "));
    expect_rejected(forward, EmulatedOffer::wrong_scale, HasSubstr("y is 0.03"));
    expect_rejected(backward, EmulatedOffer::wrong_scale, HasSubstr("own kernel: d"));
  }
}

// What is copied for a trial lies there before another stream reads or writes it.
TEST_F(CudaAttentionChoice, TrialsWaitForTheirCopies) {
  for (const auto mode : {emulator::StreamMode::late, emulator::StreamMode::others_first}) {
    emulator::set_stream_mode(mode);
    for (const OpCase& test_case : {forward_case(), backward_case()}) {
      timed(test_case, {EmulatedOffer::wrong_scale});
      EXPECT_THAT(backend().choices(), HasSubstr("it differs from the own kernel"));
      timed(test_case, {EmulatedOffer::good});
      EXPECT_THAT(backend().choices(), Not(HasSubstr("differs")));
    }
    emulator::set_stream_mode(emulator::StreamMode::at_once);
  }
}

TEST_F(CudaAttentionChoice, NamesTheRejectedOnce) {
  OpCase test_case = forward_case();
  timed(test_case, {EmulatedOffer::unsteady});
  EXPECT_THAT(
      backend().timing_note(),
      HasSubstr("\nattention h.0.attn: a library's fused attention was rejected: kernel 0: it "
                "stores other bits in a second run"));
  // Another layer of the same shape follows the book and says no more.
  const std::string note = backend().timing_note();
  test_case.path = "h.1.attn";
  run(test_case);
  EXPECT_EQ(backend().timing_note(), note);
}

TEST_F(CudaAttentionChoice, SaysWhyTheLibraryOffersNone) {
  timed(forward_case(), {});
  EXPECT_THAT(backend().timing_note(), HasSubstr("rejected: the emulated library has none"));
}

TEST_F(CudaAttentionChoice, TakesTheNextWhereTheFavouriteIsRejected) {
  const OpCase test_case = forward_case();
  const KernelRun found = timed(test_case, {EmulatedOffer::wrong_scale, EmulatedOffer::good});
  EXPECT_THAT(backend().choices(), HasSubstr("\tkernel 1\t\n"));
  expect_near(test_case, found);
  EXPECT_THAT(backend().timing_note(),
              AllOf(HasSubstr("kernel 0: it differs from the own kernel: y is 0.03"),
                    Not(HasSubstr("kernel 1"))));
}

TEST_F(CudaAttentionChoice, ComesFromTheBookForTheSameShapeAlone) {
  const OpCase test_case = forward_case(), longer = forward_case(true, 0, 41),
               whole = forward_case(false);
  const KernelRun expected_longer = own(longer), expected_whole = own(whole);
  const KernelRun found = timed(test_case, {EmulatedOffer::good});
  const std::string choices = backend().choices();
  backend().take_choices(choices);
  EXPECT_TRUE(same_bits(run(test_case), found));
  EXPECT_TRUE(same_bits(run(longer), expected_longer));
  EXPECT_TRUE(same_bits(run(whole), expected_whole));
  EXPECT_EQ(backend().choices(), choices);
}

TEST_F(CudaAttentionChoice, OfABookThatCannotBeFollowedIsAnError) {
  const OpCase test_case = forward_case();
  timed(test_case, {EmulatedOffer::good});
  cuda::library_limits().attention = {};
  try {
    run(test_case);
    ADD_FAILURE() << "expected an error";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(),
                AllOf(StartsWith("attention h.0.attn"), HasSubstr("rank 0 chose kernel 0 for it")));
  }
}

TEST_F(CudaAttentionChoice, IsTheOwnKernelInFp32AndWithDropout) {
  OpCase fp32 = forward_case();
  fp32.inputs[0] = random_f32(fp32.inputs[0].type.shape, 1);
  for (const OpCase& test_case : {fp32, forward_case(true, 0.1f)}) {
    const KernelRun expected = own(test_case);
    EXPECT_TRUE(same_bits(timed(test_case, {EmulatedOffer::good}), expected));
    EXPECT_THAT(backend().choices(), IsEmpty());
  }
}

/// Bits of `value` as bf16, rounded to nearest even.
std::uint16_t bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Rows as long sums of random signs have them, and the same with other roundings.
struct Rows {
  std::vector<std::uint16_t> own, other;
};
Rows forward_rows(const cuda::FusedAttentionSpec& spec) {
  Rows rows;
  const HostTensor noise = random_f32({spec.rows() * spec.depth}, 1);
  const HostTensor roundings = random_f32(noise.type.shape, 2, -0x1p-9f, 0x1p-9f);
  const std::int64_t width = spec.heads * spec.depth;
  for (std::int64_t i = 0; i < noise.type.elems(); ++i) {
    const float value = noise.as<float>()[i] / std::sqrt(float(i / width % spec.tokens + 1));
    rows.own.push_back(bf16(value));
    rows.other.push_back(bf16(value * (1 + roundings.as<float>()[i])));
  }
  return rows;
}

TEST(AttentionDifference, GrantsRoundingsAlone) {
  const cuda::FusedAttentionSpec spec{
      .samples = 2, .tokens = 300, .heads = 3, .depth = 16, .causal = true};
  const Rows rows = forward_rows(spec);
  const auto compare = [&](const std::vector<std::uint16_t>& other) {
    cuda::AttentionDifference found(spec);
    found.add(0, rows.own, other);
    return found.why_not();
  };
  EXPECT_NE(rows.own, rows.other);
  EXPECT_EQ(compare(rows.other), "");
  std::vector<std::uint16_t> wrong = rows.other;
  wrong[std::size_t(299 * 48 + 7)] = bf16(0.05f);
  EXPECT_THAT(compare(wrong), StartsWith("y of token 299 is 0.0"));
  wrong = rows.other;
  wrong[5] = 0x7fc0;  // a NaN
  EXPECT_THAT(compare(wrong), HasSubstr("nan"));
}

// As an H200 had it: dq of late tokens is a few times what random signs leave, and so are
// roundings.
TEST(AttentionDifference, GrantsRoundingsOfWhatDoesNotCancelInDq) {
  const cuda::FusedAttentionSpec spec{.pass = cuda::AttentionPass::backward,
                                      .samples = 1,
                                      .tokens = 4096,
                                      .heads = 1,
                                      .depth = 8,
                                      .causal = true};
  const auto compare = [&](float own, float other) {
    const std::vector<std::uint16_t> dqkv(3 * 8, bf16(own));
    std::vector<std::uint16_t> with_other = dqkv;
    with_other[2] = bf16(other);
    cuda::AttentionDifference found(spec);
    found.add(std::int64_t(3) * 1537, dqkv, with_other);
    return found.why_not();
  };
  // Random signs alone are granted 0.00174.
  EXPECT_EQ(compare(0.125f, 0.125f + 0x1p-9f), "");
  EXPECT_THAT(compare(0.125f, 0.125f + 0x1p-7f), StartsWith("dq of token 1537 is 0.00781 off"));
}

TEST(AttentionDifference, GoesOnWithLaterRows) {
  const cuda::FusedAttentionSpec spec{.samples = 1, .tokens = 4, .heads = 1, .depth = 8};
  const std::vector<std::uint16_t> row(8, bf16(0.25f)), off(8, bf16(0.75f));
  cuda::AttentionDifference found(spec);
  found.add(0, row, row);
  found.add(1, row, row);
  EXPECT_EQ(found.why_not(), "");
  found.add(2, row, off);
  EXPECT_THAT(found.why_not(), StartsWith("y of token 2 is 0.5 off"));
}

}  // namespace
}  // namespace lockstep::test
