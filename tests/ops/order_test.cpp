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

ProgramResult run_program(const Graph& graph, Backend& backend, MemoryReuse reuse) {
  const FlatSpace space = lay_out(graph, 1 << 16);
  Program program(graph, backend, space, reuse);
  const std::size_t flat_bytes = std::size_t(space.elems) * sizeof(float) + 64;
  const auto arena = backend.allocate(program.arena_bytes(), "arena");
  const auto parameters = backend.allocate(flat_bytes, "parameters");
  const auto gradients = backend.allocate(flat_bytes, "gradients");
  const auto values = random_floats(space.elems, 17);
  backend.copy_to_device(parameters->data(), values.data(), values.size() * sizeof(float));
  PackedCopies packed;
  program.bind({arena->data(), parameters->as<float>(), gradients->as<float>()}, backend, packed);
  packed.invalidate();
  for (std::size_t i = 0; i < graph.input_names().size(); ++i) {
    const auto input = random_floats(graph.value(graph.input_value(int(i))).type.elems(), i);
    backend.copy_to_device(
        program.input(graph.input_names()[i]), input.data(), input.size() * sizeof(float));
  }
  program.run_forward({});
  program.run_backward({});

  ProgramResult result;
  const auto take = [&](const void* data, std::size_t bytes) {
    result.tensors.emplace_back(bytes);
    backend.copy_to_host(result.tensors.back().data(), data, bytes);
  };
  for (const auto& [name, value] : graph.outputs())
    take(program.output(name), graph.value(value).type.bytes());
  for (const Segment& segment : space.segments)
    if (segment.bucket >= 0)
      take(gradients->as<float>() + segment.offset, std::size_t(segment.elems) * sizeof(float));
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (program.graph().nodes()[i].path != graph.nodes()[i].path) result.has_other_order = true;
  return result;
}

TEST(Order, RandomProgramsComputeTheSameBitsInEachOrder) {
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

class CpuZooOrder : public ::testing::TestWithParam<testing::ZooCase> {};

// With the workspaces of real kernels.
TEST_P(CpuZooOrder, ArenaIsNearItsBoundAndNoLarger) {
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
