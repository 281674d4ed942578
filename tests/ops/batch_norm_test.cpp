// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/batch_norm.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "lockstep/error.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/batch_norm.h"

namespace lockstep::test {
namespace {

struct Setting {
  Shape x;
  std::int64_t group_size = 0;
  std::int64_t parts = 1;
};

// The last two have so many groups that threads of the CUDA kernels walk over several batches of
// rows, of single channels and of packs.
const std::vector<Setting> kSettings = {{{0, 5}},
                                        {{0, 4, 4, 3}, 16},
                                        {{1, 1}},
                                        {{1, 7}},
                                        {{5, 1}},
                                        {{120, 10}},
                                        {{33, 31}},
                                        {{31, 33}, 8},
                                        {{9, 3}, 4},
                                        {{2, 1, 1, 5}, 1},
                                        {{3, 7, 5, 3}},
                                        {{5, 6, 6, 16}, 2},
                                        {{4, 9, 9, 32}},
                                        {{7, 3, 3, 65}, 3},
                                        {{2, 2, 2, 513}},
                                        {{4, 12, 12, 48}, 0, 2},
                                        {{0, 3, 3, 4}, 0, 3},
                                        {{1, 6}, 0, 2},
                                        {{300, 2}},
                                        {{2, 24, 24, 8}},
                                        {{530, 5, 13, 33}, 1},
                                        {{200, 2, 73, 128}, 1}};

/// Values with a mean that is large compared with the deviation, different for each channel.
HostTensor features(const Shape& shape, std::uint64_t seed, float mean) {
  HostTensor x = random_f32(shape, seed);
  const std::int64_t channels = shape[-1];
  for (std::int64_t i = 0; i < x.type.elems(); ++i)
    x.as<float>()[i] += mean * float(i % channels % 5);
  return x;
}

HostTensor rounded(const TensorType& type, const std::vector<double>& values) {
  HostTensor tensor{type, {}};
  tensor.bytes.resize(type.bytes());
  for (std::size_t i = 0; i < values.size(); ++i) tensor.as<float>()[i] = float(values[i]);
  return tensor;
}

double values_per_channel(const Shape& x) {
  return std::max(1.0, double(x.elems()) / double(x[-1]));
}

OpCase moments_case(const Setting& s, float mean) {
  // Note [Sums over the samples of a batch-norm group]: 3 (kSumBlock + 4) for the worst case, of
  // which roundings of both signs leave about its root: c sqrt(132 * 3) = 20 units, on sums of
  // squared deviations of at most 4/3 and means of at most 1 + 4 |mean|.
  const double scale = std::max(1.0 + 4.0 * std::abs(double(mean)), values_per_channel(s.x));
  return {fmt::format("{} mean {}", s.x.to_string(), mean),
          std::make_shared<ops::BatchNormMoments>(s.group_size),
          {features(s.x, 1, mean)},
          {{.c = 20, .scale = scale}}};
}

std::vector<OpCase> moments_cases() {
  std::vector<OpCase> cases;
  for (const Setting& s : kSettings)
    for (float mean : {0.0f, 3.0f}) cases.push_back(moments_case(s, mean));
  return cases;
}

/// The moments of `parts` ranks: this one's, and others that are like it but moved.
HostTensor moments_of(const OpCase& part, std::int64_t parts) {
  const std::vector<double> own = batch_norm_moments_reference(reference_args(part))[0];
  const Shape& shape = part.inputs[0].type.shape;
  const std::int64_t channels = shape[-1];
  const auto groups = std::int64_t(own.size()) / (3 * channels);
  std::vector<double> all;
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t p = 0; p < parts; ++p)
      for (std::int64_t i = 0; i < 3 * channels; ++i)
        all.push_back(own[std::size_t(g * 3 * channels + i)] +
                      double(p) * (i < channels ? 2.0 : 0.25));
  return rounded({{groups, parts, 3, channels}}, all);
}

OpCase normalize_case(const Setting& s) {
  const Shape c{s.x[-1]};
  const OpCase moments = moments_case(s, 1.0f);
  // y = x * scale + shift rounds the factors, of which the larger is |x| rstd gamma; with
  // deviations of 1/sqrt(3) and |x| <= 5 that is 9 gamma, and small groups may have small
  // deviations.
  const double rstd = 1 / std::sqrt(0.05);
  return {fmt::format("{} parts {}", s.x.to_string(), s.parts),
          std::make_shared<ops::BatchNormNormalize>(s.group_size, 0.05f),
          {moments.inputs[0],
           random_f32(c, 2, 0.5f, 1.5f),
           random_f32(c, 3),
           moments_of(moments, s.parts),
           random_f32(c, 4),
           random_f32(c, 5, 0.5f, 2.0f),
           f32_tensor({1}, {1.0f / 256})},
          {{.c = 4, .scale = 6 * 1.5 * rstd},
           {.c = 2, .scale = 6},
           {.c = 2, .scale = 6},
           {.c = 2, .scale = 6},
           {.c = 2, .scale = 2}}};
}

std::vector<OpCase> normalize_cases() {
  std::vector<OpCase> cases;
  for (const Setting& s : kSettings) cases.push_back(normalize_case(s));
  return cases;
}

OpCase bwd_sums_case(const Setting& s) {
  const OpCase forward = normalize_case(s);
  const ReferenceArgs args = reference_args(forward);
  const ReferenceOutputs outputs = batch_norm_normalize_reference(args);
  const double rstd = 1 / std::sqrt(0.05);
  // Partial sums of a block stay below the square root of its length times a summand's size; so do
  // those of all blocks in fp64 before the result is rounded.
  const double n = values_per_channel(s.x);
  const Tolerance tolerance{.c = 4, .n = std::min(n, 128.0) * n, .scale = 2 * rstd};
  return {forward.name,
          std::make_shared<ops::BatchNormBwdSums>(s.group_size),
          {forward.inputs[0], random_f32(s.x, 6), rounded(args.output_types[1], outputs[1])},
          {tolerance, tolerance, tolerance}};
}

std::vector<OpCase> bwd_sums_cases() {
  std::vector<OpCase> cases;
  for (const Setting& s : kSettings) cases.push_back(bwd_sums_case(s));
  return cases;
}

OpCase bwd_data_case(const Setting& s) {
  const OpCase forward = normalize_case(s);
  const OpCase sums = bwd_sums_case(s);
  const std::vector<double> own = batch_norm_bwd_sums_reference(reference_args(sums))[0];
  const auto groups = sums.inputs[2].type.shape[0];
  const std::int64_t channels = s.x[-1];
  std::vector<double> all;
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t p = 0; p < s.parts; ++p)
      for (std::int64_t i = 0; i < 2 * channels; ++i)
        all.push_back(own[std::size_t(g * 2 * channels + i)] + double(p));
  return {forward.name,
          std::make_shared<ops::BatchNormBwdData>(s.group_size),
          {sums.inputs[0],
           sums.inputs[1],
           forward.inputs[1],
           sums.inputs[2],
           forward.inputs[3],
           rounded({{groups, s.parts, 2, channels}}, all)},
          // Three products of factors that are rounded once, the largest dy gamma rstd.
          {{.c = 6, .scale = 1.5 / std::sqrt(0.05)}}};
}

std::vector<OpCase> batch_norm_bwd_data_cases() {
  std::vector<OpCase> cases;
  for (const Setting& s : kSettings) cases.push_back(bwd_data_case(s));
  return cases;
}

std::vector<OpCase> inference_cases() {
  std::vector<OpCase> cases;
  for (const Setting& s : kSettings) {
    const Shape c{s.x[-1]};
    cases.push_back({s.x.to_string(),
                     std::make_shared<ops::BatchNormInference>(1e-5f),
                     {features(s.x, 1, 1.0f),
                      random_f32(c, 2, 0.5f, 1.5f),
                      random_f32(c, 3),
                      random_f32(c, 4),
                      random_f32(c, 5, 0.5f, 2.0f)},
                     // x * scale + shift with |x| <= 5, rstd <= 1.42, gamma <= 1.5.
                     {{.c = 4, .scale = 5 * 1.42 * 1.5}}});
  }
  return cases;
}

LOCKSTEP_OP_TEST(BatchNormMoments, batch_norm_moments, batch_norm_moments_reference, moments_cases)
LOCKSTEP_OP_TEST(BatchNormNormalize,
                 batch_norm_normalize,
                 batch_norm_normalize_reference,
                 normalize_cases)
LOCKSTEP_OP_TEST(BatchNormBwdSums,
                 batch_norm_bwd_sums,
                 batch_norm_bwd_sums_reference,
                 bwd_sums_cases)
LOCKSTEP_OP_TEST(BatchNormBwdData,
                 batch_norm_bwd_data,
                 batch_norm_bwd_data_reference,
                 batch_norm_bwd_data_cases)
LOCKSTEP_OP_TEST(BatchNormInference,
                 batch_norm_inference,
                 batch_norm_inference_reference,
                 inference_cases)

TEST(BatchNormMoments, DoNotCancelBesideALargeMean) {
  for_each_isa([] {
    // Deviations of 1/sqrt(3) compared with means of 0, 1000, .. 4000; the first rows are outliers,
    // the worst place for a fixed shift. fp32 values near 4000 have steps of 2^-12, which is not an
    // error here: the reference sees the same values.
    OpCase test_case = moments_case({{64, 5, 5, 3}}, 1000.0f);
    for (int i = 0; i < 30; ++i) test_case.inputs[0].as<float>()[i] = -3000.0f;
    const auto got = run_kernel(test_case,
                                [](const KernelSpec& spec) {
                                  return cpu::make_batch_norm_moments_kernel(
                                      op_cast<ops::BatchNormMoments>(spec.op), spec);
                                })[0]
                         .to_double();
    const auto want = batch_norm_moments_reference(reference_args(test_case))[0];
    for (std::size_t i = 0; i < want.size(); ++i)
      // The bound of Note [Sums over the samples of a batch-norm group].
      EXPECT_NEAR(got[i], want[i], 3 * 132 * 0x1p-24 * std::abs(want[i])) << "element " << i;
  });
}

/// The whole forward pass as one function of x, gamma and beta, for finite differences.
ReferenceOutputs forward_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::BatchNormNormalize>(args.op);
  const ops::BatchNormMoments moments(op.group_size());
  ReferenceArgs all = args;
  all.inputs[3] = batch_norm_moments_reference(
      {moments, {args.input_types[0]}, {args.input_types[3]}, {args.inputs[0]}, "", {}})[0];
  return batch_norm_normalize_reference(all);
}

TEST(BatchNormGradient, FiniteDifferences) {
  for (const Setting& s : {Setting{{5, 3}}, Setting{{4, 2, 3, 2}, 2}, Setting{{3, 2}, 2}}) {
    const OpCase forward = normalize_case(s);
    const ReferenceArgs args = reference_args(forward);
    const std::vector<double> dy = random_f32(s.x, 8).to_double();
    const ReferenceOutputs outputs = forward_reference(args);
    const ops::BatchNormBwdSums sums_op(s.group_size);
    const TensorType& x = args.input_types[0];
    const ReferenceOutputs sums = batch_norm_bwd_sums_reference(
        {sums_op, {x, x, args.output_types[1]}, {}, {args.inputs[0], dy, outputs[1]}, "", {}});
    const ops::BatchNormBwdData data_op(s.group_size);
    const ops::BatchNormMoments moments_op(s.group_size);
    const ReferenceOutputs moments =
        batch_norm_moments_reference({moments_op, {x}, {}, {args.inputs[0]}, "", {}});
    const ReferenceOutputs dx = batch_norm_bwd_data_reference(
        {data_op,
         {x, x, args.input_types[1], args.output_types[1], args.input_types[3], {}},
         {},
         {args.inputs[0], dy, args.inputs[1], outputs[1], moments[0], sums[0]},
         "",
         {}});
    const std::string what = "batch_norm " + forward.name;
    check_gradient(what, forward_reference, args, 0, dy, 0, dx[0]);
    check_gradient(what, forward_reference, args, 0, dy, 1, sums[1]);
    check_gradient(what, forward_reference, args, 0, dy, 2, sums[2]);
  }
}

TEST(BatchNorm, NoChannelsAreAnError) {
  for (const Shape& shape : {Shape{4, 0}, Shape{4, 3, 3, 0}}) {
    const TensorType x{shape, DType::f32}, vector{{0}, DType::f32};
    const TensorType moments{{1, 1, 3, 0}, DType::f32}, weight{{1}, DType::f32};
    const std::vector<TensorType> training = {x, vector, vector, moments, vector, vector, weight};
    const std::vector<TensorType> inference = {x, vector, vector, vector, vector};
    EXPECT_THROW(ops::BatchNormMoments(0).infer({&x, 1}), ShapeError) << x.to_string();
    EXPECT_THROW(ops::BatchNormNormalize(0, 1e-5f).infer(training), ShapeError) << x.to_string();
    EXPECT_THROW(ops::BatchNormInference(1e-5f).infer(inference), ShapeError) << x.to_string();
  }
}

}  // namespace
}  // namespace lockstep::test
