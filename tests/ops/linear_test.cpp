// SPDX-License-Identifier: Apache-2.0
#include "core/ops/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/linear.h"

namespace lockstep::test {
namespace {

struct LinearSize {
  std::int64_t samples, in, out;
};

// Empty, single, vector tails and row tails of every kind, and (last two) beyond the small product.
const LinearSize kLinearSizes[] = {{0, 4, 10},
                                   {3, 0, 5},
                                   {5, 7, 0},
                                   {1, 1, 1},
                                   {120, 4, 10},
                                   {120, 10, 3},
                                   {7, 16, 64},
                                   {13, 31, 33},
                                   {25, 65, 17},
                                   {11, 9, 48},
                                   {128, 784, 32},
                                   {2, 1025, 10},
                                   {33, 500, 530},
                                   {0, 700, 700}};

std::string name_of_linear(const LinearSize& s) {
  return fmt::format("{}x{}->{}", s.samples, s.in, s.out);
}

struct PaddedSize {
  std::int64_t samples, in, out, padded;
};

// As above; beyond the small product from 300 x 1000 on. Padding as long as none, and by one.
const PaddedSize kPaddedSizes[] = {{0, 4, 10, 64},
                                   {3, 0, 5, 8},
                                   {2, 7, 16, 16},
                                   {5, 7, 7, 8},
                                   {9, 24, 33, 64},
                                   {33, 300, 1001, 1024}};

std::string name_of_padded(const PaddedSize& s) {
  return fmt::format("{}x{}->{} in {}", s.samples, s.in, s.out, s.padded);
}

/// Random rows with `behind` where no features are.
HostTensor padded_rows(const PaddedSize& s, std::uint64_t seed, float behind) {
  HostTensor rows = random_f32({s.samples, s.padded}, seed);
  for (std::int64_t n = 0; n < s.samples; ++n)
    std::fill_n(rows.as<float>() + n * s.padded + s.out, s.padded - s.out, behind);
  return rows;
}

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const LinearSize& s : kLinearSizes)
    for (bool bias : {false, true}) {
      OpCase c{name_of_linear(s),
               std::make_shared<ops::Linear>(bias),
               {random_f32({s.samples, s.in}, 1), random_f32({s.out, s.in}, 2)},
               {of_products(s.in)},
               {1}};
      if (bias) {
        c.inputs.push_back(random_f32({s.out}, 3));
        c.parameters.push_back(2);
      }
      cases.push_back(c);
    }
  for (const PaddedSize& s : kPaddedSizes)
    cases.push_back(
        *bf16_variant({name_of_padded(s),
                       std::make_shared<ops::Linear>(false, ops::Activation::none, false, s.padded),
                       {random_f32({s.samples, s.in}, 1), random_f32({s.out, s.in}, 2)},
                       {of_products(s.in)},
                       {1}}));
  return cases;
}

std::vector<OpCase> linear_bwd_data_cases() {
  std::vector<OpCase> cases;
  for (const LinearSize& s : kLinearSizes)
    cases.push_back({name_of_linear(s),
                     std::make_shared<ops::LinearBwdData>(),
                     {random_f32({s.samples, s.out}, 4), random_f32({s.out, s.in}, 5)},
                     {of_products(s.out)},
                     {1}});
  for (const PaddedSize& s : kPaddedSizes)
    cases.push_back(*bf16_variant({name_of_padded(s),
                                   std::make_shared<ops::LinearBwdData>(),
                                   {padded_rows(s, 4, 0), random_f32({s.out, s.in}, 5)},
                                   {of_products(s.out)},
                                   {1}}));
  return cases;
}

std::vector<OpCase> linear_bwd_weights_cases() {
  std::vector<OpCase> cases;
  for (const LinearSize& s : kLinearSizes)
    for (bool bias : {false, true})
      cases.push_back({name_of_linear(s),
                       std::make_shared<ops::LinearBwdWeights>(bias),
                       {random_f32({s.samples, s.in}, 6), random_f32({s.samples, s.out}, 7)},
                       {of_products(s.samples), of_products(s.samples)}});
  for (const PaddedSize& s : kPaddedSizes)
    cases.push_back(*bf16_variant({name_of_padded(s),
                                   std::make_shared<ops::LinearBwdWeights>(false, s.out),
                                   {random_f32({s.samples, s.in}, 6), padded_rows(s, 7, NAN)},
                                   {of_products(s.samples)}}));
  return cases;
}

LOCKSTEP_OP_TEST(Linear, linear, linear_reference, linear_cases)
LOCKSTEP_OP_TEST(LinearBwdData, linear_bwd_data, linear_bwd_data_reference, linear_bwd_data_cases)
LOCKSTEP_OP_TEST(LinearBwdWeights,
                 linear_bwd_weights,
                 linear_bwd_weights_reference,
                 linear_bwd_weights_cases)

TEST(Linear, ASampleGetsTheSameBitsInAnyBatch) {
  for_each_isa([] {
    const auto run = [](const HostTensor& x) {
      const OpCase c{"batch",
                     std::make_shared<ops::Linear>(true),
                     {x, random_f32({33, 65}, 2), random_f32({33}, 3)},
                     {},
                     {1, 2}};
      return run_kernel(c, [](const KernelSpec& spec) {
        return cpu::make_linear_kernel(op_cast<ops::Linear>(spec.op), spec);
      })[0];
    };
    const HostTensor x = random_f32({29, 65}, 1);
    const HostTensor all = run(x);
    for (std::int64_t n = 1; n < 29; n += 4) {
      HostTensor head{{{n, 65}, DType::f32}, {x.bytes.begin(), x.bytes.begin() + n * 65 * 4}};
      const HostTensor some = run(head);
      EXPECT_EQ(0, std::memcmp(some.bytes.data(), all.bytes.data(), some.bytes.size())) << n;
    }
  });
}

TEST(LinearGradient, FiniteDifferences) {
  const OpCase forward{"x",
                       std::make_shared<ops::Linear>(true),
                       {random_f32({3, 4}, 1), random_f32({5, 4}, 2), random_f32({5}, 3)}};
  const ReferenceArgs args = reference_args(forward);
  const HostTensor dy = random_f32({3, 5}, 4);
  const auto dx = linear_bwd_data_reference(
      reference_args({"dx", std::make_shared<ops::LinearBwdData>(), {dy, forward.inputs[1]}}));
  const auto dw = linear_bwd_weights_reference(reference_args(
      {"dw", std::make_shared<ops::LinearBwdWeights>(true), {forward.inputs[0], dy}}));
  check_gradient("linear x", linear_reference, args, 0, dy.to_double(), 0, dx[0]);
  check_gradient("linear W", linear_reference, args, 0, dy.to_double(), 1, dw[0]);
  check_gradient("linear b", linear_reference, args, 0, dy.to_double(), 2, dw[1]);
}

}  // namespace
}  // namespace lockstep::test
