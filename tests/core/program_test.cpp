// SPDX-License-Identifier: Apache-2.0
// A compiled program on a device without arithmetic: what it says of kernels that fail, and which
// kernels it runs.
#include "core/exec/program.h"

#include <gmock/gmock.h>
#include <utility>

#include "core/ops/activations/relu.h"
#include "core/plan/flat_space.h"
#include "lockstep/error.h"
#include "tests/core/trace_helpers.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

/// A device that notices only when it is waited for, as a GPU does, that kernel `faulty` failed.
class LateBackend final : public testing::NullBackend {
 public:
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    class Recording final : public Kernel {
     public:
      Recording(LateBackend& backend, std::string path)
          : backend_(backend), path_(std::move(path)) {}
      void bind(const KernelBuffers&) override {}
      void run(const RunState&) override {
        backend_.failed_ = path_ == "second" || (backend_.failed_ && path_ == "third");
      }

     private:
      LateBackend& backend_;
      std::string path_;
    };
    return std::make_unique<Recording>(*this, spec.path);
  }
  void synchronize() override {
    if (std::exchange(failed_, false))
      throw EnvironmentError("waiting for the device: cudaErrorIllegalAddress", "use a sanitizer");
  }

 private:
  bool failed_ = false;
};

Graph three_relus() {
  Graph graph;
  ValueId value = graph.add_input("x", {{4}, DType::f32});
  for (const char* path : {"first", "second", "third"})
    value = graph.add_node(std::make_shared<ops::Relu>(), {value}, path, SourceLoc::current())[0];
  graph.add_output("y", value);
  return graph;
}

TEST(Program, AFaultIsNamedWhereItIsLookedFor) {
  LateBackend backend;
  const Graph graph = three_relus();
  const FlatSpace space = lay_out(graph, 1 << 20);
  Program program(graph, backend, space, MemoryReuse::off);
  const auto arena = backend.allocate(program.arena_bytes(), "arena");
  PackedCopies packed;
  program.bind({arena->data(), nullptr, nullptr}, backend, packed);
  EXPECT_NO_THROW(program.run_forward({})) << "nobody waits in steady state";
  EXPECT_THROW(backend.synchronize(), EnvironmentError);
  program.name_faults();
  try {
    program.run_forward({});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        ::testing::HasSubstr("relu second: waiting for the device: cudaErrorIllegalAddress"));
    EXPECT_EQ(error.exit_code(), ExitCode::environment);
    EXPECT_EQ(error.hint(), "use a sanitizer");
  }
}

/// A device that joins kernels in pairs, and notes what runs.
class PairingBackend final : public testing::NullBackend {
 public:
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<Noting>(ran, fmt::format("{} {}", name_of(spec.op.kind()), spec.path));
  }
  JoinedKernels join(std::span<Kernel* const> kernels) override {
    if (kernels.size() < 2) return {};
    const auto name = [&](int i) { return static_cast<Noting*>(kernels[std::size_t(i)])->name; };
    return {std::make_unique<Noting>(ran, name(0) + " and " + name(1)), 2};
  }
  void synchronize() override {}

  std::vector<std::string> ran;

 private:
  struct Noting final : Kernel {
    Noting(std::vector<std::string>& list, std::string what) : ran(list), name(std::move(what)) {}
    void bind(const KernelBuffers&) override {}
    void run(const RunState&) override { ran.push_back(name); }
    std::vector<std::string>& ran;
    std::string name;
  };
};

TEST(Program, JoinedKernelsRunAsOneUnlessTheyAreLookedAt) {
  PairingBackend backend;
  const Graph graph = three_relus();
  const FlatSpace space = lay_out(graph, 1 << 20);
  Program program(graph, backend, space, MemoryReuse::off);
  const auto arena = backend.allocate(program.arena_bytes(), "arena");
  PackedCopies packed;
  program.bind({arena->data(), nullptr, nullptr}, backend, packed);
  program.run_forward({});
  EXPECT_THAT(backend.ran, ::testing::ElementsAre("relu first and relu second", "relu third"));
  backend.ran.clear();
  program.name_faults();
  program.run_forward({});
  EXPECT_THAT(backend.ran, ::testing::ElementsAre("relu first", "relu second", "relu third"));
}

/// Runs `program` part by part, and notes the buckets that start in the list of what a device ran.
void run_in_parts(Program& program, std::vector<std::string>& ran) {
  StepPlan plan;
  program.append_parts(true, true, plan);
  for (const StepPart& part : plan) {
    if (part.work == StepWork::start_bucket)
      ran.push_back(fmt::format("bucket {}", part.first));
    else
      program.run(part, {});
  }
}

TEST(Program, BucketsAreCompleteBehindTheJoinedKernelsThatFillThem) {
  PairingBackend backend;
  const auto model = [](Builder& nn, Value x) {
    return nn.linear(nn.linear(x, {.out_features = 5, .name = "a"}),
                     {.out_features = 3, .name = "b"});
  };
  const Graph graph = trace_classifier(model, {4}, 3, 8);
  // Metrics; b's weight and bias; a's.
  const FlatSpace space = lay_out(graph, 2 * kSegmentAlignment * std::int64_t(sizeof(float)));
  ASSERT_EQ(space.buckets.size(), 3u);
  Program program(graph, backend, space, MemoryReuse::off);
  const auto arena = backend.allocate(program.arena_bytes(), "arena");
  const auto flat = backend.allocate(2 * std::size_t(space.elems) * sizeof(float), "flat arrays");
  PackedCopies packed;
  program.bind(
      {arena->data(), flat->as<float>(), flat->as<float>() + space.elems}, backend, packed);
  const std::string loss = "softmax_cross_entropy softmax_cross_entropy1";

  run_in_parts(program, backend.ran);
  EXPECT_THAT(backend.ran,
              ::testing::ElementsAre("linear a and linear b",
                                     loss + " and linear_bwd_weights b",
                                     "bucket 0",
                                     "bucket 1",
                                     "linear_bwd_data b and linear_bwd_weights a",
                                     "bucket 2"));
  backend.ran.clear();
  program.name_faults();
  run_in_parts(program, backend.ran);
  EXPECT_THAT(backend.ran,
              ::testing::ElementsAre("linear a",
                                     "linear b",
                                     loss,
                                     "bucket 0",
                                     "linear_bwd_weights b",
                                     "bucket 1",
                                     "linear_bwd_data b",
                                     "linear_bwd_weights a",
                                     "bucket 2"));
}

}  // namespace
}  // namespace lockstep
