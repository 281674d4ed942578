// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/image_size_use.h"

#include "parallel/replica/memory_table.h"

namespace lockstep {

double flops_of(const Program& program) {
  const Graph& graph = program.graph();
  double flops = 0;
  for (const Node& node : graph.nodes()) flops += flops_of(graph, node);
  return flops;
}

std::vector<ImageSizeUse> image_size_uses(const CompiledPrograms& programs,
                                          const data::Dataset& train) {
  std::vector<ImageSizeUse> uses;
  const auto specs = train.specs();
  for (std::size_t i = 1; i < specs.size(); ++i) {
    const Program& whole = *programs.other_sizes()[i - 1].front().program;
    uses.push_back({specs[i].input.shape[0], whole.arena_bytes(), flops_of(whole)});
  }
  return uses;
}

}  // namespace lockstep
