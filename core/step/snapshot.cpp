// SPDX-License-Identifier: Apache-2.0
#include "core/step/snapshot.h"

#include <map>

#include "core/base/check.h"
#include "core/base/name_patterns.h"
#include "core/base/parameter_names.h"
#include "core/io/checkpoint_names.h"
#include "core/io/load_weights.h"

namespace lockstep {
namespace {

using File = CheckpointFile;

const char* path_of(File file) {
  return file == File::model       ? io::kModelFile
         : file == File::optimizer ? io::kOptimizerFile
                                   : io::kAverageFile;
}

std::string name_in_file(const Parameter& parameter, const FlatArray& array) {
  return file_of(array) == File::optimizer ? parameter.name + "." + array.name : parameter.name;
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

CheckpointFile file_of(const FlatArray& array) {
  return array.name.empty()           ? File::model
         : array.name == kAverageName ? File::average
                                      : File::optimizer;
}

bool has(const FlatArray& array, const Parameter& parameter) {
  if (file_of(array) != File::optimizer) return parameter.kind != ParameterKind::metric;
  return parameter.kind == ParameterKind::trained && !parameter.frozen;
}

Snapshot::Snapshot(const SavedArrays& saved)
    : saved_(saved), values_(bytes(saved.space, saved.arrays.size()) / sizeof(float)) {}

std::size_t Snapshot::bytes(const FlatSpace& space, std::size_t arrays) {
  return std::size_t(space.elems) * arrays * sizeof(float);
}

void Snapshot::take(Position* position) {
  const auto elems = std::size_t(saved_.space.elems);
  for (std::size_t a = 0; a < saved_.arrays.size(); ++a) {
    const FlatArray& array = saved_.arrays[a];
    float* const host = values_.data() + a * elems;
    if (array.owned)
      saved_.owners->collect(array.values, host);
    else
      saved_.backend.copy_to_host(host, array.values, elems * sizeof(float));
    if (position) position->tick();
  }
}

std::vector<io::CheckpointTensor> Snapshot::model() const { return tensors(File::model); }
std::vector<io::CheckpointTensor> Snapshot::optimizer() const { return tensors(File::optimizer); }
std::vector<io::CheckpointTensor> Snapshot::average() const { return tensors(File::average); }

std::vector<io::CheckpointTensor> Snapshot::tensors(File file) const {
  std::vector<io::CheckpointTensor> result;
  const auto elems = std::size_t(saved_.space.elems);
  for (std::size_t a = 0; a < saved_.arrays.size(); ++a) {
    const FlatArray& array = saved_.arrays[a];
    if (file_of(array) != file) continue;
    for (std::size_t i = 0; i < saved_.graph.parameters().size(); ++i) {
      const Parameter& parameter = saved_.graph.parameters()[i];
      if (!has(array, parameter)) continue;
      const Segment& segment = saved_.space.of(int(i));
      result.push_back({name_in_file(parameter, array),
                        &parameter,
                        std::span(values_).subspan(a * elems + std::size_t(segment.offset),
                                                   std::size_t(segment.elems))});
    }
  }
  return result;
}

void send_owned(const SavedArrays& saved) {
  for (const FlatArray& array : saved.arrays)
    if (array.owned) saved.owners->collect(array.values, nullptr);
}

void restore(const SavedArrays& saved, const std::string& checkpoint) {
  struct Place {
    const FlatArray* array = nullptr;
    std::int64_t offset = 0;
  };
  struct Wanted {
    std::vector<Parameter> parameters;
    std::vector<Place> places;
  };
  std::map<File, Wanted> files;
  for (const FlatArray& array : saved.arrays) {
    Wanted& wanted = files[file_of(array)];
    for (std::size_t i = 0; i < saved.graph.parameters().size(); ++i) {
      const Parameter& parameter = saved.graph.parameters()[i];
      if (!has(array, parameter)) continue;
      wanted.parameters.push_back(parameter);
      wanted.parameters.back().name = name_in_file(parameter, array);
      wanted.places.push_back({&array, saved.space.of(int(i)).offset});
    }
  }
  for (const auto& [file, wanted] : files)
    load(checkpoint + "/" + path_of(file),
         wanted.parameters,
         [&](std::size_t i, const std::vector<float>& values) {
           const auto& [array, offset] = wanted.places[i];
           const auto copy = [&](float* to, std::int64_t from, std::int64_t elems) {
             saved.backend.copy_to_device(
                 to, values.data() + from, std::size_t(elems) * sizeof(float));
           };
           if (!array->owned) return copy(array->values + offset, 0, std::ssize(values));
           for (const OwnedStretch& own :
                saved.owners->ownership().within(offset, std::ssize(values)))
             copy(array->values + own.local, own.offset - offset, own.elems);
         });
}

}  // namespace lockstep
