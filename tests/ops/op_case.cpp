// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/op_case.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "core/base/env.h"
#include "core/base/random.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/guarded_buffer.h"
#include "tests/support/null_backend.h"

namespace lockstep::test {
namespace {

std::map<OpKind, OpSuite>& suites() {
  static std::map<OpKind, OpSuite> suites;
  return suites;
}

/// LOCKSTEP_TEST_SEED; 0 without it.
std::uint64_t test_seed() { return std::stoul(env().test_seed.value_or("0")); }

template <typename T, typename Draw>
HostTensor filled(const Shape& shape, DType dtype, std::uint64_t seed, Draw draw) {
  HostTensor tensor{{shape, dtype}, {}};
  tensor.bytes.resize(tensor.type.bytes());
  RandomStream stream(random_key(seed ^ test_seed() << 32, "test input"), 0);
  for (std::int64_t i = 0; i < tensor.type.elems(); ++i) tensor.as<T>()[i] = draw(stream);
  return tensor;
}

template <typename T>
HostTensor copied(const Shape& shape, DType dtype, const std::vector<T>& values) {
  HostTensor tensor{{shape, dtype}, {}};
  tensor.bytes.resize(tensor.type.bytes());
  EXPECT_EQ(values.size() * sizeof(T), tensor.bytes.size());
  std::copy_n(
      values.begin(), std::min(values.size(), tensor.bytes.size() / sizeof(T)), tensor.as<T>());
  return tensor;
}

/// Where the tensors of the kernel that runs lie.
Backend* memory_of_run = nullptr;

/// How one run of a kernel differs from the plain one.
struct RunOptions {
  bool marked_accumulating = false;  ///< the outputs belong to the flat gradient space
  bool accumulate = false;           ///< RunState::accumulate
  int aliased_output = -1;           ///< shares the buffer of its in_place_input
  std::size_t shift_bytes = 0;       ///< moves every buffer, the workspace by whole alignments
};

/// A kernel bound to guarded memory, as a program would hold it.
class BoundKernel {
 public:
  BoundKernel(const OpCase& test_case,
              const KernelFactory& factory,
              const TestMemory& memory,
              const RunOptions& options)
      : case_(test_case), memory_(memory), options_(options) {
    KernelSpec spec{*case_.op, {}, {}, case_.path, {}, {}};
    for (const HostTensor& input : case_.inputs) spec.inputs.push_back(input.type);
    spec.outputs = case_.op->infer(spec.inputs);
    outputs_ = spec.outputs;
    spec.input_parameter.assign(case_.inputs.size(), -1);
    for (int input : case_.parameters) spec.input_parameter[std::size_t(input)] = input;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      spec.output_accumulates.push_back(options.marked_accumulating &&
                                        case_.op->accumulates(int(i)) &&
                                        outputs_[i].dtype == DType::f32);
    accumulates_ = spec.output_accumulates;
    kernel_ = factory(spec);
    allocate();
  }

  /// Bytes of each output after a run that starts from the case's inputs and `prior` outputs.
  std::vector<HostTensor> run(const std::vector<HostTensor>& prior) {
    for (std::size_t i = 0; i < case_.inputs.size(); ++i)
      inputs_memory_[i].fill_from(case_.inputs[i].bytes);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (int(i) == options_.aliased_output) continue;
      if (accumulates_[i] && options_.accumulate)
        outputs_memory_[i].fill_from(prior[i].bytes);
      else
        outputs_memory_[i].fill_with_nan();
    }
    workspace_->fill_with_nan();
    for (GuardedBuffer& memory : packed_memory_) memory.fill_with_nan();
    for (std::size_t i = 0; i < packed_memory_.size(); ++i) kernel_->pack(int(i));
    RunState state = case_.state;
    state.accumulate = options_.accumulate;
    memory_of_run = &memory_.backend;
    kernel_->run(state);
    memory_of_run = nullptr;
    check_memory();
    std::vector<HostTensor> results;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      results.push_back({outputs_[i], output_memory(int(i)).content()});
    return results;
  }

 private:
  GuardedBuffer& output_memory(int i) {
    return i == options_.aliased_output ? inputs_memory_[std::size_t(case_.op->in_place_input(i))]
                                        : outputs_memory_[std::size_t(i)];
  }

  GuardedBuffer guarded(std::size_t bytes) const { return guarded(bytes, options_.shift_bytes); }
  GuardedBuffer guarded(std::size_t bytes, std::size_t shift_bytes) const {
    const bool red_zones = !memory_.exact || options_.shift_bytes > 0;
    return GuardedBuffer(memory_.backend, bytes, shift_bytes, red_zones);
  }

  void allocate() {
    KernelBuffers buffers;
    for (const HostTensor& input : case_.inputs) {
      inputs_memory_.push_back(guarded(input.bytes.size()));
      buffers.inputs.push_back(inputs_memory_.back().data());
    }
    for (const TensorType& type : outputs_) outputs_memory_.push_back(guarded(type.bytes()));
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      buffers.outputs.push_back(output_memory(int(i)).data());
    const std::size_t shift = (options_.shift_bytes + kWorkspaceAlignment - 1) /
                              kWorkspaceAlignment * kWorkspaceAlignment;
    workspace_ = std::make_unique<GuardedBuffer>(guarded(kernel_->workspace_bytes(), shift));
    buffers.workspace = workspace_->data();
    for (const PackedCopy& copy : kernel_->packed_copies()) {
      packed_memory_.push_back(guarded(copy.bytes));
      buffers.packed.push_back(packed_memory_.back().data());
    }
    kernel_->bind(buffers);
  }

  void check_memory() {
    for (std::size_t i = 0; i < inputs_memory_.size(); ++i) {
      EXPECT_TRUE(inputs_memory_[i].guards_intact()) << "wrote around input " << i;
      const bool overwritten = options_.aliased_output >= 0 &&
                               case_.op->in_place_input(options_.aliased_output) == int(i);
      EXPECT_TRUE(overwritten || inputs_memory_[i].content() == case_.inputs[i].bytes)
          << "changed input " << i;
    }
    for (std::size_t i = 0; i < outputs_memory_.size(); ++i)
      EXPECT_TRUE(outputs_memory_[i].guards_intact()) << "wrote around output " << i;
    EXPECT_TRUE(workspace_->guards_intact()) << "wrote around the workspace";
    for (std::size_t i = 0; i < packed_memory_.size(); ++i)
      EXPECT_TRUE(packed_memory_[i].guards_intact()) << "wrote around packed copy " << i;
  }

  const OpCase& case_;
  TestMemory memory_;
  RunOptions options_;
  std::vector<TensorType> outputs_;
  std::vector<bool> accumulates_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<GuardedBuffer> inputs_memory_, outputs_memory_, packed_memory_;
  std::unique_ptr<GuardedBuffer> workspace_;
};

void expect_close(const std::vector<HostTensor>& actual,
                  const ReferenceOutputs& expected,
                  const OpCase& test_case,
                  const std::vector<HostTensor>* prior) {
  ASSERT_EQ(actual.size(), expected.size()) << "the reference has another number of outputs";
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::vector<double> got = actual[i].to_double();
    std::vector<double> want = expected[i];
    ASSERT_EQ(got.size(), want.size()) << "the reference has another size of output " << i;
    const Tolerance tolerance =
        i < test_case.tolerances.size() ? test_case.tolerances[i] : Tolerance{};
    double scale = tolerance.scale;
    if (scale == 0)
      for (double v : want)
        if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
    double allowed = tolerance.c * 0x1p-24 * std::sqrt(tolerance.n) * scale;
    const bool is_bf16 = actual[i].type.dtype == DType::bf16;
    if (is_bf16) allowed += 0x1p-8 * tolerance.rounded;
    if (prior != nullptr && test_case.op->accumulates(int(i)) && !is_bf16) {
      const std::vector<double> before = (*prior)[i].to_double();
      for (std::size_t e = 0; e < want.size(); ++e) want[e] += before[e];
      // One more addition: half a unit in the last place of values up to 1 + scale * sqrt(n).
      allowed += 0x1p-24 * (1 + scale * std::sqrt(tolerance.n));
    }
    // Of the eight bits of a bf16, half a unit is lost where it is stored.
    const double stored = is_bf16 ? 0x1p-8 : 0.0;
    double worst = -1;
    std::size_t index = 0;
    for (std::size_t e = 0; e < want.size(); ++e) {
      const bool equal = got[e] == want[e] || (std::isnan(got[e]) && std::isnan(want[e]));
      double difference = equal ? 0 : std::abs(got[e] - want[e]);
      if (std::isnan(difference)) difference = INFINITY;
      if (stored > 0 && std::isfinite(want[e]))
        difference = std::max(0.0, difference - stored * (std::abs(want[e]) + allowed));
      if (difference > worst) {
        worst = difference;
        index = e;
      }
    }
    if (worst > allowed)
      ADD_FAILURE() << "output " << i << " " << actual[i].type.to_string() << ": worst element "
                    << index << ": expected " << want[index] << ", got " << got[index]
                    << ", difference " << worst << ", allowed " << allowed;
  }
}

void expect_same_bits(const std::vector<HostTensor>& actual,
                      const std::vector<HostTensor>& expected,
                      const std::string& what) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i].bytes == expected[i].bytes) continue;
    const std::vector<double> a = actual[i].to_double(), b = expected[i].to_double();
    std::size_t e = 0;
    const std::size_t size = size_in_bytes(actual[i].type.dtype);
    while (std::memcmp(&actual[i].bytes[e * size], &expected[i].bytes[e * size], size) == 0) ++e;
    ADD_FAILURE() << what << " gives other bits: output " << i << ", first at element " << e << ": "
                  << b[e] << " became " << a[e];
  }
}

std::vector<HostTensor> prior_outputs(const std::vector<HostTensor>& outputs) {
  std::vector<HostTensor> prior;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    prior.push_back(outputs[i].type.dtype == DType::f32 ? random_f32(outputs[i].type.shape, 977 + i)
                                                        : outputs[i]);
  return prior;
}

}  // namespace

std::vector<double> HostTensor::to_double() const {
  std::vector<double> values(static_cast<std::size_t>(type.elems()));
  for (std::size_t i = 0; i < values.size(); ++i) switch (type.dtype) {
      case DType::f32:
        values[i] = as<float>()[i];
        break;
      case DType::bf16:
        values[i] = std::bit_cast<float>(std::uint32_t(as<std::uint16_t>()[i]) << 16);
        break;
      case DType::i32:
        values[i] = as<std::int32_t>()[i];
        break;
      case DType::u8:
        values[i] = as<std::uint8_t>()[i];
        break;
    }
  return values;
}

HostTensor random_f32(const Shape& shape, std::uint64_t seed, float low, float high) {
  return filled<float>(
      shape, DType::f32, seed, [=](RandomStream& s) { return s.uniform(low, high); });
}

HostTensor random_i32(const Shape& shape, std::uint64_t seed, std::uint32_t bound) {
  return filled<std::int32_t>(
      shape, DType::i32, seed, [=](RandomStream& s) { return std::int32_t(s.below(bound)); });
}

HostTensor random_u8(const Shape& shape, std::uint64_t seed, std::uint32_t bound) {
  return filled<std::uint8_t>(
      shape, DType::u8, seed, [=](RandomStream& s) { return std::uint8_t(s.below(bound)); });
}

HostTensor f32_tensor(const Shape& shape, const std::vector<float>& values) {
  return copied(shape, DType::f32, values);
}

HostTensor i32_tensor(const Shape& shape, const std::vector<std::int32_t>& values) {
  return copied(shape, DType::i32, values);
}

ReferenceArgs reference_args(const OpCase& test_case) {
  ReferenceArgs args{*test_case.op, {}, {}, {}, test_case.path, test_case.state, test_case.op};
  for (const HostTensor& input : test_case.inputs) {
    args.input_types.push_back(input.type);
    args.inputs.push_back(input.to_double());
  }
  args.output_types = test_case.op->infer(args.input_types);
  return args;
}

TestMemory host_memory() {
  static testing::NullBackend backend;
  return {backend};
}

std::vector<std::byte> tensor_bytes(const void* tensor, std::size_t bytes) {
  std::vector<std::byte> host(bytes);
  memory_of_run->copy_to_host(host.data(), tensor, bytes);
  memory_of_run->synchronize();
  return host;
}

void set_tensor_bytes(void* tensor, const std::vector<std::byte>& bytes) {
  memory_of_run->copy_to_device(tensor, bytes.data(), bytes.size());
  memory_of_run->synchronize();
}

std::vector<HostTensor> run_kernel(const OpCase& test_case,
                                   const KernelFactory& factory,
                                   const TestMemory& memory) {
  return BoundKernel(test_case, factory, memory, {}).run({});
}

void check_case(const OpCase& test_case,
                const KernelFactory& factory,
                Reference reference,
                const TestMemory& memory) {
  SCOPED_TRACE(fmt::format("{} {}, case '{}', LOCKSTEP_TEST_SEED={}",
                           name_of(test_case.op->kind()),
                           test_case.op->attributes(),
                           test_case.name,
                           test_seed()));
  const ReferenceOutputs expected = reference(reference_args(test_case));

  const auto bound = [&](const RunOptions& options) {
    return BoundKernel(test_case, factory, memory, options);
  };
  BoundKernel plain = bound({});
  const std::vector<HostTensor> first = plain.run({});
  expect_close(first, expected, test_case, nullptr);
  expect_same_bits(plain.run({}), first, "a second run");
  const std::vector<HostTensor> prior = prior_outputs(first);
  expect_same_bits(bound({.shift_bytes = 192}).run({}), first, "a kernel at other addresses");
  expect_same_bits(bound({.accumulate = true}).run({}),
                   first,
                   "RunState::accumulate without KernelSpec::output_accumulates");

  bool any_accumulates = false;
  for (int i = 0; i < int(first.size()); ++i) {
    any_accumulates = any_accumulates || test_case.op->accumulates(i);
    if (const int input = test_case.op->in_place_input(i); input >= 0) {
      ASSERT_EQ(first[std::size_t(i)].bytes.size(),
                test_case.inputs[std::size_t(input)].bytes.size());
      expect_same_bits(bound({.aliased_output = i}).run({}),
                       first,
                       fmt::format("output {} in place of input {}", i, input));
    }
  }
  if (!any_accumulates) return;
  BoundKernel overwriting = bound({.marked_accumulating = true});
  expect_same_bits(overwriting.run(prior), first, "an accumulating node's first micro-batch");
  BoundKernel adding = bound({.marked_accumulating = true, .accumulate = true});
  const std::vector<HostTensor> sum = adding.run(prior);
  expect_close(sum, expected, test_case, &prior);
  expect_same_bits(adding.run(prior), sum, "a second accumulating run");
}

void check_cpu_cases(const std::vector<OpCase>& cases,
                     const KernelFactory& factory,
                     Reference reference) {
  for_each_isa([&] {
    for (OpCase test_case : cases) {
      for (Tolerance& tolerance : test_case.tolerances) tolerance.rounded = 0;
      check_case(test_case, factory, reference);
      if (const auto variant = bf16_variant(test_case)) check_case(*variant, factory, reference);
    }
  });
}

bool register_op_suite(const OpSuite& suite) { return suites().emplace(suite.kind, suite).second; }

const OpSuite* find_op_suite(OpKind kind) {
  const auto found = suites().find(kind);
  return found == suites().end() ? nullptr : &found->second;
}

}  // namespace lockstep::test
