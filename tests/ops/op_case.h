// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/backend.h"
#include "core/ops/op_base.h"
#include "tests/reference/reference.h"

namespace lockstep::test {

/// A tensor in host memory.
struct HostTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
  std::vector<double> to_double() const;
};

/// Uniform f32 values in [low, high), a function of the seed alone.
HostTensor random_f32(const Shape& shape, std::uint64_t seed, float low = -1, float high = 1);
/// Uniform integers in [0, bound).
HostTensor random_i32(const Shape& shape, std::uint64_t seed, std::uint32_t bound);
HostTensor random_u8(const Shape& shape, std::uint64_t seed, std::uint32_t bound = 256);
HostTensor f32_tensor(const Shape& shape, const std::vector<float>& values);
HostTensor i32_tensor(const Shape& shape, const std::vector<std::int32_t>& values);

/// |actual - expected| <= c * 2^-24 * sqrt(n) * scale for every element of one output; where it is
/// bf16, half a unit of its eight bits is added.
struct Tolerance {
  double c = 4;      ///< roundings an element passes through, times a small factor; 0: exact
  double n = 1;      ///< length of the longest sum in an element
  double scale = 0;  ///< size of one summand; 0: the largest |expected| of the output
  /// By how many times 2^-8 an element moves where kernels of tensor cores round summands to bf16.
  double rounded = 0;
};

/// One operator, its inputs, and what to expect of its outputs.
struct OpCase {
  std::string name;
  std::shared_ptr<const Operator> op;
  std::vector<HostTensor> inputs;
  std::vector<Tolerance> tolerances = {};  ///< per output; the default where absent
  std::vector<int> parameters = {};        ///< inputs that are parameters (may be packed)
  RunState state = {};
  std::string path = "layer";
};

using KernelFactory = std::function<std::unique_ptr<Kernel>(const KernelSpec&)>;

/// The arguments of the reference for `test_case`.
ReferenceArgs reference_args(const OpCase& test_case);

/// Where the tensors of a case lie: in what `backend` allocates, copied by it.
struct TestMemory {
  Backend& backend;
  /// Tensors have allocations of exactly their bytes, so that who watches bounds sees the first one
  /// outside; only those at other addresses have red zones. Otherwise all have.
  bool exact = false;
};

/// Host memory, for kernels of the CPU.
TestMemory host_memory();

/// Bytes of a tensor of the kernel that run_kernel() or check_case() runs, which may lie on a
/// device: for what stands in for other ranks in RunState::group.
std::vector<std::byte> tensor_bytes(const void* tensor, std::size_t bytes);
void set_tensor_bytes(void* tensor, const std::vector<std::byte>& bytes);

/// The outputs of one run without accumulation, for tests that compare kernels with each other.
std::vector<HostTensor> run_kernel(const OpCase& test_case,
                                   const KernelFactory& factory,
                                   const TestMemory& memory = host_memory());

/// Runs `test_case` through the kernel that `factory` makes and adds a GoogleTest failure that
/// names operator, case and worst element unless
///   - every output agrees with `reference`, whether or not the node accumulates,
///   - accumulation adds to what is there, and is ignored for outputs that do not ask for it,
///   - no byte outside the outputs and the workspace changes, no input does, none is read that was
///     not written (memory starts as NaN),
///   - a second run, a second kernel at other addresses, and every permitted aliasing of an output
///     with an input give the same bits.
void check_case(const OpCase& test_case,
                const KernelFactory& factory,
                Reference reference,
                const TestMemory& memory = host_memory());

/// check_case for every case as it is and with bf16 activations (bf16_variant.h), with the loops of
/// each instruction set that this processor has. They sum in fp32 all the way: Tolerance::rounded
/// is not granted.
void check_cpu_cases(const std::vector<OpCase>& cases,
                     const KernelFactory& factory,
                     Reference reference);

/// The cases of one operator, for the kernels of every backend.
struct OpSuite {
  OpKind kind;
  std::vector<OpCase> (*cases)();
  Reference reference;
};
bool register_op_suite(const OpSuite& suite);
/// Null: the operator has none.
const OpSuite* find_op_suite(OpKind kind);

}  // namespace lockstep::test

/// One test per operator: `cases` is a function that returns std::vector<OpCase>. The CPU's kernel
/// is tested here, those of other backends take the suite from find_op_suite().
#define LOCKSTEP_OP_TEST(Type, stem, reference, cases)                                       \
  [[maybe_unused]] static const bool registered_##stem =                                     \
      ::lockstep::test::register_op_suite({::lockstep::OpKind::stem, cases, reference});     \
  TEST(CpuKernel, stem) {                                                                    \
    const ::lockstep::test::KernelFactory factory = [](const ::lockstep::KernelSpec& spec) { \
      return ::lockstep::cpu::make_##stem##_kernel(                                          \
          ::lockstep::op_cast<::lockstep::ops::Type>(spec.op), spec);                        \
    };                                                                                       \
    ::lockstep::test::check_cpu_cases(cases(), factory, reference);                          \
  }
