// SPDX-License-Identifier: Apache-2.0
// The backward of a batch norm with residual and ReLU: against the reference, against the operators
// that it stands for (the same bits), and against finite differences.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "core/ops/activations/relu.h"
#include "core/ops/add.h"
#include "core/ops/norms/batch_norm.h"
#include "kernels/cpu/kernel_list.h"
#include "lockstep/error.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/reference/batch_norm.h"

namespace lockstep::test {
namespace {

struct ResidualSetting {
  Shape x;
  std::int64_t group_size = 0;
};

// As in batch_norm_test.cpp: no samples, one value per channel, short last groups, channels that
// fill no vector or pack, blocks and tiles of rows that are not whole.
const std::vector<ResidualSetting> kResidualSettings = {{{0, 5}},
                                                        {{0, 4, 4, 3}, 16},
                                                        {{1, 7}},
                                                        {{120, 10}},
                                                        {{31, 33}, 8},
                                                        {{3, 7, 5, 3}},
                                                        {{5, 6, 6, 16}, 2},
                                                        {{7, 3, 3, 65}, 3},
                                                        {{2, 24, 24, 8}},
                                                        {{2, 2, 2, 513}},
                                                        {{530, 5, 13, 33}, 1}};

/// x, dy, saved, y with zeros as ReLU leaves them, the second dy.
std::vector<HostTensor> residual_inputs(const ResidualSetting& s) {
  const std::int64_t channels = s.x[-1], groups = ops::batch_norm_groups(s.x[0], s.group_size);
  HostTensor y = random_f32(s.x, 3);
  for (std::int64_t i = 0; i < y.type.elems(); ++i)
    y.as<float>()[i] = std::max(0.0f, y.as<float>()[i]);
  return {random_f32(s.x, 1),
          random_f32(s.x, 2),
          random_f32({groups, 2, channels}, 4, 0.5f, 1.5f),
          y,
          random_f32(s.x, 5)};
}

OpCase residual_case(const ResidualSetting& s, bool two_uses) {
  OpCase test_case{fmt::format("{} group {}, {} uses", s.x.to_string(), s.group_size, 1 + two_uses),
                   std::make_shared<ops::BatchNormResidualBwdSums>(s.group_size, two_uses),
                   residual_inputs(s)};
  if (!two_uses) test_case.inputs.pop_back();
  // As for batch_norm_bwd_sums: a summand is at most 2 (x - mean) rstd with |x| <= 1, mean and rstd
  // below 1.5. dz is exact.
  const double n = std::max(1.0, double(s.x.elems()) / double(s.x[-1]));
  const Tolerance sums{.c = 4, .n = std::min(n, 128.0) * n, .scale = 2 * 2.5 * 1.5};
  test_case.tolerances = {sums, sums, sums, {.c = 0}};
  return test_case;
}

std::vector<OpCase> residual_bwd_sums_cases() {
  std::vector<OpCase> cases;
  for (const ResidualSetting& s : kResidualSettings)
    for (const bool two_uses : {false, true}) cases.push_back(residual_case(s, two_uses));
  return cases;
}

LOCKSTEP_OP_TEST(BatchNormResidualBwdSums,
                 batch_norm_residual_bwd_sums,
                 batch_norm_residual_bwd_sums_reference,
                 residual_bwd_sums_cases)

template <typename Op, typename Factory>
std::vector<HostTensor> run_residual(const std::shared_ptr<Op>& op,
                                     const std::vector<HostTensor>& inputs,
                                     Factory factory) {
  return run_kernel({"fused", op, inputs},
                    [&](const KernelSpec& spec) { return factory(op_cast<Op>(spec.op), spec); });
}

/// The outputs of add, relu_bwd and batch_norm_bwd_sums, in the order of the operator that stands
/// for them.
std::vector<HostTensor> residual_apart(const OpCase& fused, std::int64_t group_size) {
  const std::vector<HostTensor>& in = fused.inputs;
  HostTensor dy = in[1];
  if (in.size() > 4)
    dy = run_residual(std::make_shared<ops::Add>(), {dy, in[4]}, cpu::make_add_kernel)[0];
  const HostTensor dz =
      run_residual(std::make_shared<ops::ReluBwd>(), {dy, in[3]}, cpu::make_relu_bwd_kernel)[0];
  auto outputs = run_residual(std::make_shared<ops::BatchNormBwdSums>(group_size),
                              {in[0], dz, in[2]},
                              cpu::make_batch_norm_bwd_sums_kernel);
  outputs.push_back(dz);
  return outputs;
}

TEST(BatchNormResidual, BackwardHasTheBitsOfItsPartsInFp32AndBf16) {
  for_each_isa([] {
    for (const ResidualSetting& s : kResidualSettings)
      for (const bool two_uses : {false, true}) {
        OpCase test_case = residual_case(s, two_uses);
        if (s.x[0] > 0) {  // What is not a number goes the same way.
          test_case.inputs[1].as<float>()[0] = NAN;
          test_case.inputs[3].as<float>()[s.x[-1] - 1] = NAN;
        }
        for (const OpCase& c : {test_case, *bf16_variant(test_case)}) {
          const auto want = residual_apart(c, s.group_size);
          const auto got =
              run_residual(std::make_shared<ops::BatchNormResidualBwdSums>(s.group_size, two_uses),
                           c.inputs,
                           cpu::make_batch_norm_residual_bwd_sums_kernel);
          for (std::size_t i = 0; i < want.size(); ++i)
            EXPECT_EQ(got[i].bytes, want[i].bytes) << c.name << " output " << i;
        }
      }
  });
}

/// max(0, batch_norm(x) + r), as one function of x, gamma, beta and r: input 7.
ReferenceOutputs residual_forward_reference(const ReferenceArgs& args) {
  const std::int64_t group_size = op_cast<ops::BatchNormNormalize>(args.op).group_size();
  const ops::BatchNormMoments moments(group_size);
  const ops::BatchNormNormalize plain(group_size, 0.05f);
  ReferenceArgs norm{plain, args.input_types, args.output_types, args.inputs, "", {}};
  norm.inputs[3] = batch_norm_moments_reference(
      {moments, {args.input_types[0]}, {args.input_types[3]}, {args.inputs[0]}, "", {}})[0];
  ReferenceOutputs outputs = batch_norm_normalize_reference(norm);
  for (std::size_t i = 0; i < outputs[0].size(); ++i)
    outputs[0][i] = std::max(0.0, outputs[0][i] + args.inputs[7][i]);
  return outputs;
}

TEST(BatchNormResidualGradient, FiniteDifferences) {
  for (const ResidualSetting& s : {ResidualSetting{{5, 3}}, ResidualSetting{{4, 2, 3, 2}, 2}}) {
    const Shape c{s.x[-1]};
    const std::int64_t groups = ops::batch_norm_groups(s.x[0], s.group_size);
    // Residuals far from zero keep the sum away from ReLU's kink: normal values are below 2.3.
    HostTensor residual = random_f32(s.x, 7);
    for (std::int64_t i = 0; i < residual.type.elems(); ++i)
      residual.as<float>()[i] += i % 3 == 0 ? -5.0f : 5.0f;
    const OpCase forward{"",
                         std::make_shared<ops::BatchNormNormalize>(s.group_size, 0.05f, true, true),
                         {random_f32(s.x, 1),
                          random_f32(c, 2, 0.5f, 1.5f),
                          random_f32(c, 3),
                          random_f32({groups, 1, 3, s.x[-1]}, 4),
                          random_f32(c, 4),
                          random_f32(c, 5, 0.5f, 2.0f),
                          f32_tensor({1}, {1.0f / 256}),
                          residual}};
    const ReferenceArgs args = reference_args(forward);
    const std::vector<double> dy = random_f32(s.x, 8).to_double();
    const ReferenceOutputs outputs = residual_forward_reference(args);
    const TensorType x = args.input_types[0], saved = args.output_types[1];
    const ops::BatchNormResidualBwdSums sums_op(s.group_size);
    const ReferenceOutputs sums = batch_norm_residual_bwd_sums_reference(
        {sums_op, {x, x, saved, x}, {}, {args.inputs[0], dy, outputs[1], outputs[0]}, "", {}});
    const ops::BatchNormMoments moments_op(s.group_size);
    const ReferenceOutputs moments =
        batch_norm_moments_reference({moments_op, {x}, {}, {args.inputs[0]}, "", {}});
    const ops::BatchNormBwdData data_op(s.group_size);
    const ReferenceOutputs dx = batch_norm_bwd_data_reference(
        {data_op,
         {x, x, args.input_types[1], saved, args.input_types[3], {}},
         {},
         {args.inputs[0], sums[3], args.inputs[1], outputs[1], moments[0], sums[0]},
         "",
         {}});
    const std::string what = "batch_norm with residual " + s.x.to_string();
    check_gradient(what, residual_forward_reference, args, 0, dy, 0, dx[0]);
    check_gradient(what, residual_forward_reference, args, 0, dy, 1, sums[1]);
    check_gradient(what, residual_forward_reference, args, 0, dy, 2, sums[2]);
    check_gradient(what, residual_forward_reference, args, 0, dy, 7, sums[3]);
  }
}

TEST(BatchNormResidual, TensorsOfOtherShapesAreAnError) {
  const TensorType x{{4, 8}, DType::f32}, other{{4, 7}, DType::f32}, narrow{{4, 8}, DType::bf16};
  const TensorType saved{{1, 2, 8}, DType::f32};
  const ops::BatchNormResidualBwdSums one(0), two(0, true);
  const auto infer = [](const Operator& op, std::vector<TensorType> inputs) {
    return op.infer(inputs);
  };
  EXPECT_EQ(infer(two, {x, x, saved, x, x})[3].to_string(), x.to_string());
  EXPECT_THROW(infer(two, {x, x, saved, x}), ShapeError);
  EXPECT_THROW(infer(one, {x, x, saved, x, x}), ShapeError);
  EXPECT_THROW(infer(two, {x, x, saved, x, other}), ShapeError);
  EXPECT_THROW(infer(two, {x, x, saved, narrow, x}), ShapeError);
  EXPECT_THROW(infer(one, {x, narrow, saved, x}), ShapeError);
}

}  // namespace
}  // namespace lockstep::test
