// SPDX-License-Identifier: Apache-2.0
#include "core/step/snapshot.h"

#include "core/base/check.h"
#include "core/base/name_patterns.h"
#include "core/base/parameter_names.h"
#include "core/io/checkpoint_names.h"
#include "core/io/load_weights.h"

namespace lockstep {
namespace {

bool in_model_file(const Parameter& parameter) { return parameter.kind != ParameterKind::metric; }

bool has_state(const Parameter& parameter) {
  return parameter.kind == ParameterKind::trained && !parameter.frozen;
}

std::string state_name(const Parameter& parameter, const FlatArray& array) {
  return parameter.name + "." + array.name;
}

/// Loads `wanted` from `file` and hands out each one's values with its place in `wanted`.
template <typename Place>
void load(const std::string& file, const std::vector<Parameter>& wanted, Place place) {
  std::vector<io::NamedTensor> tensors;
  try {
    tensors = io::load_weights(file, wanted, NamePatterns("`init_skip`", {}));
  } catch (const DataError& error) {
    throw DataError(as_written(error.what()), "the checkpoint is of another model or optimizer");
  }
  LOCKSTEP_ASSERT(tensors.size() == wanted.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) place(i, tensors[i].values);
}

}  // namespace

Snapshot::Snapshot(const SavedArrays& saved)
    : saved_(saved), values_(bytes(saved.space, saved.arrays.size()) / sizeof(float)) {}

std::size_t Snapshot::bytes(const FlatSpace& space, std::size_t arrays) {
  return std::size_t(space.elems) * arrays * sizeof(float);
}

void Snapshot::take(Position* position) {
  const auto elems = std::size_t(saved_.space.elems);
  for (std::size_t a = 0; a < saved_.arrays.size(); ++a) {
    saved_.backend.copy_to_host(
        values_.data() + a * elems, saved_.arrays[a].values, elems * sizeof(float));
    if (position) position->tick();
  }
}

std::vector<io::CheckpointTensor> Snapshot::model() const { return tensors(true); }
std::vector<io::CheckpointTensor> Snapshot::optimizer() const { return tensors(false); }

std::vector<io::CheckpointTensor> Snapshot::tensors(bool model) const {
  std::vector<io::CheckpointTensor> result;
  const auto elems = std::size_t(saved_.space.elems);
  for (std::size_t a = 0; a < saved_.arrays.size(); ++a) {
    if ((a == 0) != model) continue;
    for (std::size_t i = 0; i < saved_.graph.parameters().size(); ++i) {
      const Parameter& parameter = saved_.graph.parameters()[i];
      if (model ? !in_model_file(parameter) : !has_state(parameter)) continue;
      const Segment& segment = saved_.space.of(int(i));
      result.push_back({model ? parameter.name : state_name(parameter, saved_.arrays[a]),
                        &parameter,
                        std::span(values_).subspan(a * elems + std::size_t(segment.offset),
                                                   std::size_t(segment.elems))});
    }
  }
  return result;
}

void restore(const SavedArrays& saved, const std::string& checkpoint) {
  std::vector<Parameter> model, state;
  std::vector<float*> model_places, state_places;
  for (std::size_t a = 0; a < saved.arrays.size(); ++a) {
    for (std::size_t i = 0; i < saved.graph.parameters().size(); ++i) {
      const Parameter& parameter = saved.graph.parameters()[i];
      float* place = saved.arrays[a].values + saved.space.of(int(i)).offset;
      if (a == 0 && in_model_file(parameter)) {
        model.push_back(parameter);
        model_places.push_back(place);
      } else if (a > 0 && has_state(parameter)) {
        state.push_back(parameter);
        state.back().name = state_name(parameter, saved.arrays[a]);
        state_places.push_back(place);
      }
    }
  }
  const auto put = [&](const std::vector<float*>& places) {
    return [&](std::size_t i, const std::vector<float>& values) {
      saved.backend.copy_to_device(places[i], values.data(), values.size() * sizeof(float));
    };
  };
  load(checkpoint + "/" + io::kModelFile, model, put(model_places));
  load(checkpoint + "/" + io::kOptimizerFile, state, put(state_places));
}

}  // namespace lockstep
