// SPDX-License-Identifier: Apache-2.0
// What a program says of the first output that is not finite.
#include "core/exec/finite_check.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "core/exec/program.h"
#include "core/ops/activations/relu.h"
#include "core/plan/flat_space.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Kernels copy; that of node `second` then writes `value` at `index`.
class PlantingBackend final : public testing::NullBackend {
 public:
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    class Copying final : public Kernel {
     public:
      Copying(PlantingBackend& backend, const KernelSpec& spec)
          : backend_(backend), type_(spec.outputs[0]), plants_(spec.path == "second") {}
      void bind(const KernelBuffers& buffers) override {
        from_ = buffers.inputs[0];
        to_ = static_cast<std::byte*>(buffers.outputs[0]);
      }
      void run(const RunState&) override {
        ++backend_.runs;
        std::memmove(to_, from_, type_.bytes());
        if (!plants_ || backend_.index < 0) return;
        const auto bits = std::bit_cast<std::uint32_t>(backend_.value);
        const auto half = std::uint16_t(bits >> 16);
        if (type_.dtype == DType::bf16)
          std::memcpy(to_ + backend_.index * 2, &half, sizeof half);
        else
          std::memcpy(to_ + backend_.index * 4, &bits, sizeof bits);
      }

     private:
      PlantingBackend& backend_;
      TensorType type_;
      bool plants_;
      const void* from_ = nullptr;
      std::byte* to_ = nullptr;
    };
    return std::make_unique<Copying>(*this, spec);
  }

  std::int64_t index = -1;
  float value = 0;
  int runs = 0;
};

/// Larger than one of the pieces in which memory is looked at.
constexpr std::int64_t kElems = 600'000;

class FiniteCheck : public ::testing::TestWithParam<DType> {
 protected:
  FiniteCheck() {
    Graph graph;
    ValueId value = graph.add_input("x", {{kElems}, GetParam()});
    for (const char* path : {"first", "second", "third"})
      value = graph.add_node(std::make_shared<ops::Relu>(), {value}, path, SourceLoc::current())[0];
    graph.add_output("y", value);
    space_ = lay_out(graph, 1 << 20);
    program_.emplace(std::move(graph), backend_, space_, MemoryReuse::off);
    arena_ = backend_.allocate(program_->arena_bytes(), "arena");
    program_->bind({arena_->data(), nullptr, nullptr}, backend_, packed_);
  }

  PlantingBackend backend_;
  FlatSpace space_;
  std::optional<Program> program_;
  std::unique_ptr<DeviceBuffer> arena_;
  PackedCopies packed_;
  FiniteReport report_;
};

TEST_P(FiniteCheck, NothingInAHealthyProgram) {
  backend_.index = 7;
  backend_.value = std::ldexp(1.9921875f, 127);  // near the largest of either type
  program_->check_finite(&report_);
  program_->run_forward({});
  EXPECT_FALSE(report_.found);
}

TEST_P(FiniteCheck, TheFirstOperatorIsNamedAndTheProgramGoesOn) {
  for (const float value : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const std::int64_t index : {std::int64_t{0}, kElems - 1}) {
      backend_.index = index;
      backend_.value = value;
      backend_.runs = 0;
      report_ = {};
      program_->check_finite(&report_);
      program_->run_forward({});
      EXPECT_EQ(backend_.runs, 3);
      ASSERT_TRUE(report_.found);
      EXPECT_EQ(report_.op, "relu");
      EXPECT_EQ(report_.path, "second") << "the third only hands on";
      EXPECT_EQ(report_.node, 1);
      EXPECT_FALSE(report_.backward);
      EXPECT_EQ(report_.output, 0);
      EXPECT_EQ(report_.count.elems, kElems);
      EXPECT_EQ(report_.count.non_finite, 1);
      EXPECT_EQ(report_.count.first, index);
      EXPECT_EQ(std::isnan(report_.count.value), std::isnan(value));
      EXPECT_EQ(std::isinf(report_.count.value), std::isinf(value));
    }
  }
}

TEST_P(FiniteCheck, NothingIsLookedForAnyMore) {
  program_->check_finite(&report_);
  program_->check_finite(nullptr);
  backend_.index = 0;
  backend_.value = kNan;
  program_->run_forward({});
  EXPECT_FALSE(report_.found);
}

TEST_P(FiniteCheck, AFaultThatIsPlayed) {
  EXPECT_FALSE(program_->poison_after("fourth"));
  EXPECT_TRUE(program_->poison_after("third"));
  program_->check_finite(&report_);
  for (int run = 0; run < 2; ++run) {
    report_ = {};
    program_->run_forward({});
    ASSERT_TRUE(report_.found);
    EXPECT_EQ(report_.path, "third");
    EXPECT_EQ(report_.count.non_finite, 1);
    EXPECT_EQ(report_.count.first, 0);
    EXPECT_TRUE(std::isnan(report_.count.value));
  }
  EXPECT_TRUE(program_->poison_after(""));
  report_ = {};
  program_->run_forward({});
  EXPECT_FALSE(report_.found);
}

INSTANTIATE_TEST_SUITE_P(Types, FiniteCheck, ::testing::Values(DType::f32, DType::bf16));

TEST(NonFiniteCountTest, OtherTypesHaveNone) {
  const std::int32_t values[] = {-1, -1};  // bits of NaN
  EXPECT_EQ(count_non_finite(values, {{2}, DType::i32}).non_finite, 0);
  EXPECT_EQ(count_non_finite(values, {{2}, DType::f32}).non_finite, 2);
}

}  // namespace
}  // namespace lockstep
