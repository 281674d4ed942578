// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/position.h"
#include "core/graph/graph.h"
#include "core/io/checkpoint.h"
#include "core/plan/flat_space.h"
#include "core/step/flat_array.h"

namespace lockstep {

/// The flat arrays of a replica that a checkpoint saves, the parameters first, and what their
/// segments are called.
struct SavedArrays {
  Backend& backend;
  const Graph& graph;
  const FlatSpace& space;
  std::vector<FlatArray> arrays;
};

/// A copy of a replica's parameters, running statistics and optimizer state in host memory that is
/// reserved, and touched, at construction: training goes on while it is written. The graph must
/// outlive it.
class Snapshot {
 public:
  explicit Snapshot(const SavedArrays& saved);
  /// Of one snapshot of that many flat arrays.
  static std::size_t bytes(const FlatSpace& space, std::size_t arrays);
  /// Copies from the device; ticks `position` (may be null) after each array. Nobody may be reading
  /// the tensors meanwhile.
  void take(Position* position = nullptr);
  /// Views of the copy, under the names that files have.
  std::vector<io::CheckpointTensor> model() const;
  std::vector<io::CheckpointTensor> optimizer() const;

 private:
  std::vector<io::CheckpointTensor> tensors(bool model) const;

  SavedArrays saved_;
  std::vector<float> values_;  // one flat array behind the other
};

/// Writes a checkpoint's tensors into the flat arrays on the device. Throws DataError as
/// io::load_weights(): names, shapes or types that do not fit, all of them listed.
void restore(const SavedArrays& saved, const std::string& checkpoint);

}  // namespace lockstep
