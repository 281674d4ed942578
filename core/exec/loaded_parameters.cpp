// SPDX-License-Identifier: Apache-2.0
#include "core/exec/loaded_parameters.h"

#include <algorithm>
#include <vector>

#include "core/io/load_weights.h"

namespace lockstep {

FlatSpace prediction_space(const Graph& graph) {
  constexpr std::int64_t kOneBucket = std::int64_t{1} << 40;
  return lay_out(graph, kOneBucket);
}

LoadedParameters::LoadedParameters(Backend& backend,
                                   const FlatSpace& space,
                                   std::span<Program* const> programs,
                                   const std::string& weights,
                                   const std::string& owner) {
  const std::vector<Parameter>& parameters = programs.front()->graph().parameters();
  const auto loaded = io::load_weights(weights, parameters, NamePatterns("`init_skip`", {}));
  parameters_ = backend.allocate(std::size_t(space.elems) * sizeof(float), owner + "parameters");
  std::size_t next = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].kind == ParameterKind::metric) continue;
    const std::vector<float>& values = loaded[next++].values;
    backend.copy_to_device(
        data() + space.of(int(i)).offset, values.data(), values.size() * sizeof(float));
  }
  std::size_t arena = 0;
  for (const Program* program : programs) arena = std::max(arena, program->arena_bytes());
  arena_ = backend.allocate(arena, owner + "activations and workspace");
  for (Program* program : programs)
    program->bind({arena_->data(), data(), nullptr}, backend, packed_);
  packed_.invalidate();
}

}  // namespace lockstep
