// SPDX-License-Identifier: Apache-2.0
// Random programs compute the same bits in the order of their nodes as given, each tensor in memory
// of its own, and in the order that takes the least memory, with memory used again.
#include <cstring>
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/exec/program.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/random_graph.h"
#include "tests/support/zoo_case.h"

namespace lockstep {
namespace {

std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  RandomStream random(seed, 3);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = random.uniform(-1, 1);
  return values;
}

struct ProgramResult {
  std::vector<std::vector<std::byte>> tensors;  ///< outputs, then sums for each parameter
  bool has_other_order = false;
};

/// A program with memory of its own and random parameters.
struct BoundProgram {
  BoundProgram(const Graph& graph, Backend& backend, MemoryReuse reuse)
      : space(lay_out(graph, 1 << 16)), program(graph, backend, space, reuse) {
    const std::size_t flat_bytes = std::size_t(space.elems) * sizeof(float) + 64;
    arena = backend.allocate(program.arena_bytes(), "arena");
    parameters = backend.allocate(flat_bytes, "parameters");
    gradients = backend.allocate(flat_bytes, "gradients");
    const auto values = random_floats(space.elems, 17);
    backend.copy_to_device(parameters->data(), values.data(), values.size() * sizeof(float));
    program.bind({arena->data(), parameters->as<float>(), gradients->as<float>()}, backend, packed);
    packed.invalidate();
  }

  /// Random inputs.
  void run_forward(const Graph& graph, Backend& backend) {
    for (std::size_t i = 0; i < graph.input_names().size(); ++i) {
      const auto input = random_floats(graph.value(graph.input_value(int(i))).type.elems(), i);
      backend.copy_to_device(
          program.input(graph.input_names()[i]), input.data(), input.size() * sizeof(float));
    }
    program.run_forward({});
  }

  FlatSpace space;
  Program program;
  std::unique_ptr<DeviceBuffer> arena, parameters, gradients;
  PackedCopies packed;
};

ProgramResult run_program(const Graph& graph, Backend& backend, MemoryReuse reuse) {
  BoundProgram bound(graph, backend, reuse);
  Program& program = bound.program;
  bound.run_forward(graph, backend);
  program.run_backward({});

  ProgramResult result;
  const auto take = [&](const void* data, std::size_t bytes) {
    result.tensors.emplace_back(bytes);
    backend.copy_to_host(result.tensors.back().data(), data, bytes);
  };
  for (const auto& [name, value] : graph.outputs())
    take(program.output(name), graph.value(value).type.bytes());
  for (const Segment& segment : bound.space.segments)
    if (segment.bucket >= 0)
      take(bound.gradients->as<float>() + segment.offset,
           std::size_t(segment.elems) * sizeof(float));
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (program.graph().nodes()[i].path != graph.nodes()[i].path) result.has_other_order = true;
  return result;
}

TEST(OrderedProgram, RandomProgramsComputeTheSameBitsInEachOrder) {
  const auto backend = make_cpu_backend();
  int reordered = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph = testing::RandomGraph::make(seed, 6 + int(seed % 7));
    const ProgramResult given = run_program(graph, *backend, MemoryReuse::off);
    EXPECT_FALSE(given.has_other_order);
    for (MemoryReuse reuse : {MemoryReuse::on, MemoryReuse::poison}) {
      const ProgramResult ordered = run_program(graph, *backend, reuse);
      EXPECT_EQ(ordered.tensors, given.tensors) << "seed " << seed;
      reordered += ordered.has_other_order;
    }
  }
  EXPECT_GE(reordered, 40) << "the same order has the same bits";
}

// Ranks compare these numbers, and may run programs of other batch sizes in other orders.
TEST(OrderedProgram, AFaultHasItsNumberInTheGivenGraph) {
  const auto backend = make_cpu_backend();
  int elsewhere = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = testing::RandomGraph::make(seed, 6 + int(seed % 7));
    BoundProgram bound(graph, *backend, MemoryReuse::on);
    FiniteReport report;
    bound.program.check_finite(&report);
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (node.phase != NodePhase::forward || node.op->is_view()) continue;
      report = {};
      ASSERT_TRUE(bound.program.poison_after(node.path));
      bound.run_forward(graph, *backend);
      ASSERT_TRUE(report.found) << "seed " << seed << ' ' << node.path;
      EXPECT_EQ(report.node, int(i)) << "seed " << seed;
      EXPECT_EQ(report.path, node.path);
      elsewhere += bound.program.graph().nodes()[i].path != node.path;
    }
  }
  EXPECT_GE(elsewhere, 40) << "programs in the given order show nothing";
}

class CpuZooOrder : public ::testing::TestWithParam<testing::ZooCase> {};

// With the workspaces of real kernels.
TEST_P(CpuZooOrder, ArenaIsNearItsBound) {
  const auto backend = make_cpu_backend();
  for (Precision precision : {Precision::fp32, Precision::bf16})
    for (std::int64_t micro_batch : {1, 32})
      testing::expect_arena_near_its_bound(GetParam(), micro_batch, precision, *backend);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         CpuZooOrder,
                         ::testing::Values(testing::ZooCase{"mlp", {28, 28, 1}},
                                           testing::ZooCase{"convnet", {28, 28, 1}},
                                           testing::ZooCase{"resnet20", {32, 32, 3}},
                                           testing::ZooCase{"resnet18", {224, 224, 3}},
                                           testing::ZooCase{"resnet50", {224, 224, 3}},
                                           testing::ZooCase{"vgg11", {224, 224, 3}},
                                           testing::ZooCase{"gpt2-124m", {1024}}),
                         testing::name_of_zoo_case);

}  // namespace
}  // namespace lockstep
