// SPDX-License-Identifier: Apache-2.0
// The CUDA kernel of every operator, with the cases of LOCKSTEP_OP_TEST.
#include "core/ops/conv2d.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"

namespace lockstep::test {
namespace {

/// The type in which sums of a bf16 convolution lie before its bias is added or its gradient
/// accumulates: f32, or bf16 where a library does not add the bias for these channels or has stored
/// the gradient, which it says when it is asked. The emulated one adds every bias, and is not
/// asked: there no kernel of ours may round in between.
DType type_of_sums(const OpCase& test_case) {
  const auto* forward = dynamic_cast<const ops::Conv2d*>(test_case.op.get());
  const bool is_gradient = test_case.op->kind() == OpKind::conv2d_bwd_weights;
  if (!is_gradient && (forward == nullptr || !forward->attrs().bias)) return DType::f32;
  const auto backend = make_cuda_backend(0);
  const bool adds_bias = backend->device_class().find("emulated") != std::string::npos;
  if (adds_bias && !is_gradient) return DType::f32;
  const auto factory = [&](const KernelSpec& spec) { return backend->make_kernel(spec); };
  run_kernel(test_case, factory, {*backend, /*exact=*/true});
  const std::string choices = backend->choices(), plain = "bf16 -> bf16\t";
  const std::size_t at = choices.find(plain);
  const bool rounds = at != std::string::npos && choices[at + plain.size()] != '\t';
  return rounds ? DType::bf16 : DType::f32;
}

/// of_products() of the sum's length, and the rounding of the sum where it is stored in between.
Tolerance with_sums_in(DType type, const Tolerance& products) {
  return type == DType::bf16 ? of_rounded_products(std::int64_t(products.n)) : products;
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
      if (!variant->tolerances.empty())
        variant->tolerances[0] = with_sums_in(type_of_sums(*variant), variant->tolerances[0]);
      check_case(*variant, factory, suite->reference, memory);
    }
  }
};

#define LOCKSTEP_VIEW_OP(Type, stem)
#define LOCKSTEP_OP(Type, stem) \
  TEST_F(CudaKernel, stem) { check(OpKind::stem); }
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP

}  // namespace
}  // namespace lockstep::test
