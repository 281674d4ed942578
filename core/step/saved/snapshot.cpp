// SPDX-License-Identifier: Apache-2.0
#include "core/step/saved/snapshot.h"

#include <map>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/name_patterns.h"
#include "core/io/checkpoint/checkpoint_names.h"
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

Snapshot::Snapshot(const SavedArrays& saved, std::span<const FlatRange> parts, int rank)
    : saved_(saved) {
  const FlatRange& own = parts[std::size_t(rank)];
  std::size_t place = 0;
  for (const FlatArray& array : saved_.arrays) {
    Copy copy{.range = copied_range(saved_, array, own), .place = place, .ranges = {}};
    if (array.owned)
      for (const FlatRange& part : parts) copy.ranges.push_back(copied_range(saved_, array, part));
    place += std::size_t(copy.range.elems);
    copies_.push_back(std::move(copy));
  }
  values_.resize(place);
}

void Snapshot::take(Position* position) {
  for (std::size_t a = 0; a < saved_.arrays.size(); ++a) {
    const FlatArray& array = saved_.arrays[a];
    const Copy& copy = copies_[a];
    float* const host = values_.data() + copy.place;
    if (array.owned)
      saved_.owners->collect(array.values, copy.ranges, host);
    else if (copy.range.elems > 0)
      saved_.backend.copy_to_host(
          host, array.values + copy.range.offset, std::size_t(copy.range.elems) * sizeof(float));
    if (position) position->tick();
  }
}

std::vector<io::CheckpointTensor> Snapshot::model() const { return tensors(File::model); }
std::vector<io::CheckpointTensor> Snapshot::optimizer() const { return tensors(File::optimizer); }
std::vector<io::CheckpointTensor> Snapshot::average() const { return tensors(File::average); }

std::vector<io::CheckpointTensor> Snapshot::tensors(File file) const {
  std::vector<io::CheckpointTensor> result;
  for (std::size_t a = 0; a < saved_.arrays.size(); ++a) {
    const FlatArray& array = saved_.arrays[a];
    if (file_of(array) != file) continue;
    const auto& [range, place, ranges] = copies_[a];
    for (std::size_t i = 0; i < saved_.graph.parameters().size(); ++i) {
      const Parameter& parameter = saved_.graph.parameters()[i];
      if (!has(array, parameter)) continue;
      const Segment& segment = saved_.space.of(int(i));
      std::span<const float> stored;
      if (segment.offset >= range.offset && segment.offset < range.offset + range.elems)
        stored = std::span(values_).subspan(place + std::size_t(segment.offset - range.offset),
                                            std::size_t(segment.elems));
      result.push_back({name_in_file(parameter, array), &parameter, stored});
    }
  }
  return result;
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
