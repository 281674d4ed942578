// SPDX-License-Identifier: Apache-2.0
// What weights a replica starts with: the seed's, a file's, the training data's.
#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <string>
#include <vector>

#include "core/base/text/name_patterns.h"
#include "core/host/cores.h"
#include "core/io/load_weights.h"
#include "core/nn/initialise.h"
#include "core/nn/whitening.h"
#include "lockstep/error.h"
#include "parallel/comm/error_serialization.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {
namespace {

/// "[1, 0]" of element `at` in row-major order; "" of a scalar.
std::string index_text(std::int64_t at, const Shape& shape) {
  std::vector<std::int64_t> index(std::size_t(shape.rank()));
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[std::size_t(d)] = at % shape[d];
    at /= shape[d];
  }
  return index.empty() ? "" : fmt::format("[{}]", fmt::join(index, ", "));
}

/// Otherwise the first step of the run would report a value that the file brought.
void expect_finite(const std::string& file, const io::NamedTensor& tensor) {
  const auto bad =
      std::ranges::find_if_not(tensor.values, [](float v) { return std::isfinite(v); });
  if (bad == tensor.values.end()) return;
  const std::vector<float> in_file = io::to_file_layout(tensor.parameter, tensor.values);
  const auto first = std::ranges::find_if_not(in_file, [](float v) { return std::isfinite(v); });
  throw DataError(
      fmt::format("{}: {}{} is {}, expected finite numbers",
                  file,
                  tensor.parameter.name,
                  index_text(first - in_file.begin(), tensor.parameter.file_layout.file),
                  *first),
      "choose another file, or skip the tensor with `init_skip`");
}

}  // namespace

void ReplicaState::initialise_parameters() {
  const Graph& graph = programs.graph();
  const int threads = available_cores().count;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    if (!context.backend().has_memory()) break;
    const std::vector<float> values = initial_values(graph.parameters()[i], options.seed, threads);
    context.backend().copy_to_device(programs.parameters() + programs.space().of(int(i)).offset,
                                     values.data(),
                                     values.size() * sizeof(float));
    if (graph.parameters()[i].init.kind == Init::Kind::whitening)
      from_training_data.push_back(graph.parameters()[i].name);
  }
  load_initial_weights();
  parts.average.begin();
  programs.packed().invalidate();
}

void ReplicaState::load_initial_weights() {
  if (options.init.empty()) return;
  const std::vector<Parameter>& all = programs.graph().parameters();
  for (const io::NamedTensor& tensor :
       io::load_weights(options.init,
                        all,
                        NamePatterns("`init_skip`", options.init_skip),
                        &initial_weights.emplace())) {
    expect_finite(options.init, tensor);
    const auto at = std::ranges::find(all, tensor.parameter.name, &Parameter::name) - all.begin();
    context.backend().copy_to_device(programs.parameters() + programs.space().of(int(at)).offset,
                                     tensor.values.data(),
                                     tensor.values.size() * sizeof(float));
    std::erase(from_training_data, tensor.parameter.name);
  }
}

void ReplicaState::initialise_from(const data::Dataset& training) {
  if (from_training_data.empty()) return;
  const std::vector<Parameter>& all = programs.graph().parameters();
  for (const std::string& name : from_training_data) {
    const auto at = std::ranges::find(all, name, &Parameter::name) - all.begin();
    const std::string filters = text_of_rank_0(context.communicator(), [&] {
      const auto values =
          whitening_filters(training, all[std::size_t(at)].shape, options.skip_bad_samples, [&] {
            context.position().tick();
          });
      return std::string(reinterpret_cast<const char*>(values.data()),
                         values.size() * sizeof(float));
    });
    context.backend().copy_to_device(programs.parameters() + programs.space().of(int(at)).offset,
                                     filters.data(),
                                     filters.size());
  }
  from_training_data.clear();
  parts.average.begin();
  programs.packed().invalidate();
}

}  // namespace lockstep
