// SPDX-License-Identifier: Apache-2.0
// What linear and conv2d do where a library takes a part of their work, and where it refuses.
#include <gmock/gmock.h>
#include <set>

#include "core/ops/activations/gelu.h"
#include "core/ops/attention.h"
#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "kernels/cuda/device/algorithm_cache.h"
#include "kernels/cuda/device/algorithm_key.h"
#include "lockstep/error.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/conv2d.h"
#include "tests/reference/linear.h"
#include "tests/support/cuda_emulator/library_limits.h"

namespace lockstep::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class CudaFallbacks : public CudaTest {
 protected:
  void TearDown() override { limits() = {}; }
  static cuda::LibraryLimits& limits() { return cuda::library_limits(); }
  /// For limits that change within a test.
  void forget_choices() { backend().take_choices(""); }

  void check(const OpCase& test_case, Reference reference) {
    const auto factory = [this](const KernelSpec& spec) { return backend().make_kernel(spec); };
    check_case(test_case, factory, reference, {backend(), /*exact=*/true});
  }
  std::vector<HostTensor> run(std::shared_ptr<const Operator> op,
                              const std::vector<HostTensor>& inputs,
                              const std::vector<int>& parameters) {
    const OpCase test_case{"x", std::move(op), inputs, {}, parameters};
    return run_kernel(
        test_case,
        [this](const KernelSpec& spec) { return backend().make_kernel(spec); },
        TestMemory{backend()});
  }
};

OpCase linear_case(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.name = fmt::format("{}x{}->{}", rows, in, out),
          .op = std::make_shared<ops::Linear>(true),
          .inputs = {random_f32({rows, in}, 1), random_f32({out, in}, 2), random_f32({out}, 3)},
          .tolerances = {of_products(in)},
          .parameters = {1, 2}};
}

TEST_F(CudaFallbacks, ABiasBehindAProductIsAddedBeforeRounding) {
  limits().matrix_bias = false;
  for (const auto& [rows, in, out] :
       {std::array{1, 1, 1}, {7, 16, 64}, {13, 31, 33}, {300, 9, 48}, {3, 5, 4096}}) {
    const OpCase plain = linear_case(rows, in, out);
    check(plain, linear_reference);
    // The bias itself is not rounded.
    OpCase bf16 = *bf16_variant(plain);
    bf16.inputs[2] = plain.inputs[2];
    check(bf16, linear_reference);
  }
}

// In evaluation the library applies GELU to sums that are not rounded yet, as in training.
TEST_F(CudaFallbacks, GeluBehindABiasIsTheSameInEvaluationUnlessTheBiasIsRefused) {
  const std::vector<HostTensor> inputs{
      rounded_to_bf16(random_f32({9, 24}, 1)), random_f32({40, 24}, 2), random_f32({40}, 3)};
  const auto linear = [&](ops::Activation activation, bool training) {
    return run(std::make_shared<ops::Linear>(true, activation, training), inputs, {1, 2})[0];
  };
  const auto gelu = ops::Activation::gelu_tanh;
  const HostTensor evaluation = linear(gelu, false);
  EXPECT_EQ(evaluation.bytes, linear(gelu, true).bytes);
  limits().matrix_bias = false;
  forget_choices();
  const HostTensor apart = run(std::make_shared<ops::Gelu>(ops::GeluKind::tanh),
                               {linear(ops::Activation::none, false)},
                               {})[0];
  EXPECT_EQ(linear(gelu, false).bytes, apart.bytes);
  EXPECT_NE(evaluation.bytes, apart.bytes);
}

TEST_F(CudaFallbacks, AGradientOfGeluBehindAProductHasTheBitsOfItsPartsWhereRefused) {
  const HostTensor dy = rounded_to_bf16(random_f32({9, 40}, 1)), weight = random_f32({40, 24}, 2),
                   h = rounded_to_bf16(random_f32({9, 24}, 3, -4, 4));
  const HostTensor dx = run(std::make_shared<ops::LinearBwdData>(), {dy, weight}, {1})[0];
  const HostTensor apart = run(std::make_shared<ops::GeluBwd>(ops::GeluKind::tanh), {dx, h}, {})[0];
  const auto fused = std::make_shared<ops::LinearBwdData>(ops::Activation::gelu_tanh);
  // What the library multiplies by the slope is not rounded yet.
  EXPECT_NE(run(fused, {dy, weight, h}, {1})[0].bytes, apart.bytes);
  limits().matrix_gelu_gradient = false;
  forget_choices();
  EXPECT_EQ(run(fused, {dy, weight, h}, {1})[0].bytes, apart.bytes);
}

OpCase conv2d_case(std::int64_t filters, const Tolerance& tolerance) {
  const ops::Conv2dAttrs attrs{.padding_h = 1, .padding_w = 1, .bias = true};
  return *bf16_variant({.name = fmt::format("{} filters", filters),
                        .op = std::make_shared<ops::Conv2d>(attrs),
                        .inputs = {random_f32({2, 7, 5, 8}, 1),
                                   random_f32({filters, 3, 3, 8}, 2),
                                   random_f32({filters}, 3)},
                        .tolerances = {tolerance},
                        .parameters = {1, 2}});
}

TEST_F(CudaFallbacks, ABiasBehindABf16ConvolutionIsAddedBeforeRounding) {
  limits().convolution_bias = false;
  for (const std::int64_t filters : {7, 16})
    check(conv2d_case(filters, of_products(9 * 8)), conv2d_reference);
}

TEST_F(CudaFallbacks, ABiasBehindABf16ConvolutionThatStoresNoFp32CostsOneMoreRounding) {
  limits().convolution_bias = false;
  limits().fp32_from_bf16 = false;
  for (const std::int64_t filters : {7, 16})
    check(conv2d_case(filters, of_rounded_products(9 * 8)), conv2d_reference);
}

TEST_F(CudaFallbacks, Bf16GradientsOfWeightsAreConvertedAndAccumulated) {
  limits().fp32_from_bf16 = false;
  for (const std::int64_t k : {7, 16}) {
    const ops::Conv2dAttrs attrs{.padding_h = 1, .padding_w = 1, .bias = true};
    const OpCase plain{.name = "weight gradient",
                       .op = std::make_shared<ops::Conv2dBwdWeights>(attrs, Shape{k, 3, 3, 8}),
                       .inputs = {random_f32({2, 7, 5, 8}, 6), random_f32({2, 7, 5, k}, 7)},
                       .tolerances = {of_rounded_products(2 * 7 * 5), of_products(2 * 7 * 5)}};
    check(*bf16_variant(plain), conv2d_bwd_weights_reference);
  }
}

/// A convolution whose padding is wider than its kernel, which no library takes.
OpCase unusual_case(const std::string& layer) {
  return {.name = "wide padding",
          .op = std::make_shared<ops::Conv2d>(ops::Conv2dAttrs{.padding_h = 3, .padding_w = 2}),
          .inputs = {random_f32({1, 3, 3, 3}, 1), random_f32({4, 2, 2, 3}, 2)},
          .tolerances = {of_products(12)},
          .parameters = {1},
          .path = layer};
}

TEST_F(CudaFallbacks, WhatTheLibraryLacksIsNamedOnceForEachLayer) {
  check(linear_case(2, 3, 4), linear_reference);
  EXPECT_THAT(backend().notices(), IsEmpty());
  for (const char* layer : {"stem", "stem", "head"}) check(unusual_case(layer), conv2d_reference);
  EXPECT_THAT(backend().notices(),
              ElementsAre(AllOf(StartsWith("conv2d head, conv2d stem: "),
                                HasSubstr("without tensor cores"),
                                HasSubstr("the emulated library refuses it"))));
  for (int i = 0; i < 4; ++i) check(unusual_case(fmt::format("block{}", i)), conv2d_reference);
  EXPECT_THAT(backend().notices(), ElementsAre(HasSubstr(" and 2 more: ")));
}

TEST_F(CudaFallbacks, AttentionWithoutTensorCoresIsNamedOnceForEachLayer) {
  const auto attend = [&](DType dtype, std::int64_t depth, const std::string& layer) {
    HostTensor qkv = random_f32({1, 3, 3 * 2 * depth}, 1);
    if (dtype == DType::bf16) qkv = rounded_to_bf16(qkv);
    OpCase attention{"x", std::make_shared<ops::Attention>(ops::AttentionAttrs{.heads = 2}), {qkv}};
    attention.path = layer;
    run_kernel(
        attention,
        [this](const KernelSpec& spec) { return backend().make_kernel(spec); },
        TestMemory{backend()});
  };
  attend(DType::bf16, 64, "h.0.attn");
  EXPECT_THAT(backend().notices(), IsEmpty());
  for (const char* layer : {"h.0.attn", "h.0.attn", "h.1.attn"}) attend(DType::f32, 64, layer);
  EXPECT_THAT(backend().notices(),
              ElementsAre(AllOf(StartsWith("attention h.0.attn, attention h.1.attn: "),
                                HasSubstr("tensor cores"),
                                HasSubstr("f32, with heads of 64"))));
  attend(DType::bf16, 12, "h.2.attn");
  attend(DType::bf16, 136, "h.3.attn");
  EXPECT_THAT(backend().notices(),
              AllOf(::testing::Contains(HasSubstr("bf16, with heads of 12")),
                    ::testing::Contains(HasSubstr("bf16, with heads of 136"))));
}

TEST(AlgorithmCache, ComesBackFromItsText) {
  using cuda::AlgorithmChoice;
  cuda::AlgorithmCache book, other;
  book.choice("product", [] { return AlgorithmChoice{.text = "fast", .why_none = ""}; });
  book.choice("convolution", [] { return AlgorithmChoice{.text = "", .why_none = "too\twide\n"}; });
  other.choice("of its own", [] { return AlgorithmChoice{.text = "slow", .why_none = ""}; });
  other.replace(book.to_text());
  EXPECT_EQ(other.to_text(), book.to_text());
  EXPECT_EQ(other.find("of its own"), nullptr);
  EXPECT_EQ(other.find("convolution")->why_none, "too wide ");
  const auto never = []() -> AlgorithmChoice { throw Error("asked again"); };
  EXPECT_EQ(other.choice("product", never).text, "fast");
  EXPECT_THROW(other.replace("product\tfast"), InternalError);
  EXPECT_EQ(other.to_text(), book.to_text());
}

// Two ranks must not take the choice for one product for that of another.
TEST(AlgorithmKey, SaysAllThatAProductIs) {
  const cuda::MatrixProductSpec plain{.m = 8, .n = 8, .k = 8};
  std::vector<cuda::MatrixProductSpec> specs(11, plain);
  specs[1].m = specs[2].n = specs[3].k = 9;
  specs[4].transpose_a = specs[5].transpose_b = true;
  specs[6].factors = specs[7].result = DType::bf16;
  specs[8].a_pitch = 16;
  specs[9].epilogue = cuda::MatrixEpilogue::bias;
  specs[10].parts = 2;
  cuda::Device device, tf32;
  tf32.tf32 = true;
  std::set<std::string> keys{algorithm_key(tf32, plain)};
  for (const auto& spec : specs) keys.insert(algorithm_key(device, spec));
  EXPECT_EQ(keys.size(), specs.size() + 1);
}

TEST(AlgorithmKey, SaysAllThatAConvolutionIs) {
  const cuda::ConvolutionSpec plain{};
  std::vector<cuda::ConvolutionSpec> specs(19, plain);
  specs[1].pass = cuda::ConvolutionPass::weight_gradient;
  specs[2].type = specs[3].result = DType::bf16;
  specs[4].bias = true;
  std::size_t at = 5;
  for (const auto field : {&cuda::ConvolutionSpec::n,
                           &cuda::ConvolutionSpec::h,
                           &cuda::ConvolutionSpec::w,
                           &cuda::ConvolutionSpec::c,
                           &cuda::ConvolutionSpec::k,
                           &cuda::ConvolutionSpec::kernel_h,
                           &cuda::ConvolutionSpec::kernel_w,
                           &cuda::ConvolutionSpec::out_h,
                           &cuda::ConvolutionSpec::out_w,
                           &cuda::ConvolutionSpec::stride_h,
                           &cuda::ConvolutionSpec::stride_w,
                           &cuda::ConvolutionSpec::padding_h,
                           &cuda::ConvolutionSpec::padding_w,
                           &cuda::ConvolutionSpec::groups})
    specs[at++].*field = 7;
  ASSERT_EQ(at, specs.size());
  cuda::Device device;
  std::set<std::string> keys;
  for (const auto& spec : specs) keys.insert(algorithm_key(device, spec));
  EXPECT_EQ(keys.size(), specs.size());
}

TEST(AlgorithmKey, SaysAllThatAnAttentionIs) {
  const cuda::FusedAttentionSpec plain{};
  std::vector<cuda::FusedAttentionSpec> specs(7, plain);
  specs[1].pass = cuda::AttentionPass::backward;
  specs[2].samples = specs[3].tokens = specs[4].heads = specs[5].depth = 7;
  specs[6].causal = true;
  cuda::Device device;
  std::set<std::string> keys;
  for (const auto& spec : specs) keys.insert(algorithm_key(device, spec));
  EXPECT_EQ(keys.size(), specs.size());
}

}  // namespace
}  // namespace lockstep::test
