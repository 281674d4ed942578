// SPDX-License-Identifier: Apache-2.0
// The CUDA kernel of every operator, with the cases of LOCKSTEP_OP_TEST.
#include "core/ops/conv2d.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"

namespace lockstep::test {
namespace {

/// Whether sums of a convolution are stored as bf16 before its bias is added or its gradient
/// accumulates, as cuDNN neither adds the bias nor stores fp32 for these channels.
bool rounds_sums(const OpCase& test_case) {
  const auto* forward = dynamic_cast<const ops::Conv2d*>(test_case.op.get());
  const bool is_gradient = test_case.op->kind() == OpKind::conv2d_bwd_weights;
  if (!is_gradient && (forward == nullptr || !forward->attrs().bias)) return false;
  const auto backend = make_cuda_backend(0);
  const auto factory = [&](const KernelSpec& spec) { return backend->make_kernel(spec); };
  run_kernel(test_case, factory, {*backend, /*exact=*/true});
  const std::string choices = backend->choices(), plain = "bf16 -> bf16\t";
  const std::size_t at = choices.find(plain);
  return at != std::string::npos && choices[at + plain.size()] != '\t';
}

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
      auto variant = bf16_variant(test_case);
      if (!variant) continue;
      if (rounds_sums(*variant))
        variant->tolerances[0] = of_rounded_products(std::int64_t(variant->tolerances[0].n));
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
