// SPDX-License-Identifier: Apache-2.0
// The CUDA kernel of every operator, with the cases of LOCKSTEP_OP_TEST.
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

class CudaKernel : public CudaTest {
 protected:
  /// Every case as it is and with bf16 activations.
  void check(OpKind kind) {
    const OpSuite* suite = find_op_suite(kind);
    ASSERT_NE(suite, nullptr) << "no LOCKSTEP_OP_TEST of " << name_of(kind);
    const TestMemory memory{backend(), /*exact=*/true};
    const KernelFactory factory = [this](const KernelSpec& spec) {
      return backend().make_kernel(spec);
    };
    for (const OpCase& test_case : suite->cases()) {
      check_case(test_case, factory, suite->reference, memory);
      if (const auto variant = bf16_variant(test_case))
        check_case(*variant, factory, suite->reference, memory);
    }
  }
};

#define LOCKSTEP_VIEW_OP(Type, stem)
#define LOCKSTEP_OP(Type, stem) \
  TEST_F(CudaKernel, stem) { check(OpKind::stem); }
#include "core/ops/op_list.inc"
#undef LOCKSTEP_OP

}  // namespace
}  // namespace lockstep::test
