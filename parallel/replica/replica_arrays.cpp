// SPDX-License-Identifier: Apache-2.0
// The flat arrays as checkpoints and faults see them, and the text of what lies in them.
#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "parallel/replica/replica_check.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {

SavedArrays saved_arrays(Backend& backend,
                         const Graph& graph,
                         const FlatSpace& space,
                         float* parameters,
                         ReplicaParts& parts) {
  SavedArrays saved{backend, graph, space, {{"", parameters}}, parts.owners.get()};
  for (FlatArray& array : parts.optimizer.state_arrays()) saved.arrays.push_back(std::move(array));
  if (std::optional<FlatArray> array = parts.average.array())
    saved.arrays.push_back(std::move(*array));
  return saved;
}

void ReplicaState::gather_weights() {
  if (weights_are_whole_) return;
  parts.owners->gather_weights(programs.parameters());
  weights_are_whole_ = true;
}

SavedArrays ReplicaState::saved_arrays() {
  return lockstep::saved_arrays(
      context.backend(), programs.graph(), programs.space(), programs.parameters(), parts);
}

void ReplicaState::swap_average() {
  if (!parts.average.on()) return;
  parts.average.swap();
  weights_are_whole_ = true;
  programs.packed().invalidate();
  device_timer.skip_work();
}

void ReplicaState::restore(const std::string& checkpoint) {
  SavedArrays saved = saved_arrays();
  // With resume_override a run may have an average that the checkpoint lacks: it begins here.
  const bool begins_average = parts.average.on() && !is_file(checkpoint + "/" + io::kAverageFile);
  if (begins_average) saved.arrays.pop_back();
  lockstep::restore(saved, checkpoint);
  weights_are_whole_ = true;
  from_training_data.clear();
  if (begins_average) parts.average.begin();
  programs.packed().invalidate();
  resume_updates();
  device_timer.skip_work();
}

std::string ReplicaState::flip_bit(std::size_t array, std::int64_t index, int bit) {
  const SavedArrays saved = saved_arrays();
  std::vector<ComparedTensor> tensors = compared_tensors(saved);
  std::erase_if(tensors, [&](const ComparedTensor& tensor) { return tensor.array != array; });
  std::int64_t elems = 0;
  for (const ComparedTensor& tensor : tensors) elems += tensor.range.elems;
  LOCKSTEP_CHECK(elems > 0 && index >= 0 && bit >= 0 && bit < 32,
                 ConfigError,
                 "flip: array {} of {}, element {}, bit {}: does not exist",
                 array,
                 saved.arrays.size(),
                 index,
                 bit);
  index %= elems;
  auto tensor = tensors.begin();
  for (; index >= tensor->range.elems; ++tensor) index -= tensor->range.elems;
  float* place = saved.arrays[array].values + tensor->range.offset + index;
  std::uint32_t bits = 0;
  saved.backend.copy_to_host(&bits, place, sizeof bits);
  bits ^= 1u << bit;
  saved.backend.copy_to_device(place, &bits, sizeof bits);
  programs.packed().invalidate();
  const std::string& name = saved.graph.parameters()[std::size_t(tensor->parameter)].name;
  return array == 0 ? name : name + "." + saved.arrays[array].name;
}

std::string ReplicaState::program_text() {
  std::string text = to_text(programs.graph()) + to_text(programs.space(), programs.graph()) +
                     to_text(programs.plan());
  if (const Program* const program = programs.orthogonalization())
    text += to_text(program->graph()) + to_text(program->plan());
  return text;
}

}  // namespace lockstep
