// SPDX-License-Identifier: Apache-2.0
// Products of fp32 whose factors may be rounded to tf32: --precision tf32.
#include <cmath>

#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"

namespace lockstep::test {
namespace {

/// `kind`'s cases with the tolerance of tf32 for the first output, which is the product.
std::vector<OpCase> tf32_cases(OpKind kind) {
  std::vector<OpCase> cases = find_op_suite(kind)->cases();
  for (OpCase& test_case : cases)
    test_case.tolerances[0] = of_tf32_products(std::int64_t(test_case.tolerances[0].n));
  return cases;
}

class CudaTf32 : public CudaTest {
 protected:
  void check(OpKind kind) {
    ASSERT_TRUE(backend().allow_tf32(true));
    const KernelFactory factory = [this](const KernelSpec& spec) {
      return backend().make_kernel(spec);
    };
    for (const OpCase& test_case : tf32_cases(kind)) {
      if (test_case.inputs[0].type.dtype != DType::f32) continue;
      check_case(test_case, factory, find_op_suite(kind)->reference, {backend(), /*exact=*/true});
    }
  }

  /// Of the first output, the largest distance from the reference.
  double worst(const OpCase& test_case, Reference reference) {
    const auto want = reference(reference_args(test_case))[0];
    const auto got = run_kernel(
                         test_case,
                         [this](const KernelSpec& spec) { return backend().make_kernel(spec); },
                         TestMemory{backend()})[0]
                         .to_double();
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - want[i]));
    return worst;
  }
};

TEST_F(CudaTf32, linear) { check(OpKind::linear); }
TEST_F(CudaTf32, linear_bwd_data) { check(OpKind::linear_bwd_data); }
TEST_F(CudaTf32, linear_bwd_weights) { check(OpKind::linear_bwd_weights); }
TEST_F(CudaTf32, conv2d) { check(OpKind::conv2d); }
TEST_F(CudaTf32, conv2d_bwd_data) { check(OpKind::conv2d_bwd_data); }
TEST_F(CudaTf32, conv2d_bwd_weights) { check(OpKind::conv2d_bwd_weights); }

// Otherwise the tests above would have shown nothing, and fp32 would not be fp32.
TEST_F(CudaTf32, RoundsFactorsWhereItMayAndNowhereElse) {
  for (const OpKind kind : {OpKind::linear, OpKind::conv2d}) {
    const OpSuite& suite = *find_op_suite(kind);
    const std::vector<OpCase> cases = suite.cases();
    int rounded = 0;
    for (const OpCase& test_case : cases) {
      if (test_case.inputs[0].type.dtype == DType::bf16) continue;
      const Tolerance fp32 = test_case.tolerances[0];
      const double allowed = fp32.c * 0x1p-24 * std::sqrt(fp32.n) * fp32.scale;
      backend().allow_tf32(false);
      EXPECT_LE(worst(test_case, suite.reference), allowed) << test_case.name;
      backend().allow_tf32(true);
      rounded += worst(test_case, suite.reference) > 4 * allowed ? 1 : 0;
    }
    EXPECT_GT(rounded, 0) << name_of(kind) << ": no product has the error of tf32";
  }
}

}  // namespace
}  // namespace lockstep::test
