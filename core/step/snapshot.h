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
#include "core/step/owner_exchange.h"

namespace lockstep {

/// The flat arrays of a replica that a checkpoint saves, the parameters first, and what their
/// segments are called.
struct SavedArrays {
  Backend& backend;
  const Graph& graph;
  const FlatSpace& space;
  std::vector<FlatArray> arrays;
  OwnerExchange* owners = nullptr;  ///< null: no array is owned in parts
};

/// The file of a checkpoint that an array lies in, and whether it has a part for `parameter`: no
/// array has one for a metric, the optimizer's have them for what is trained.
enum class CheckpointFile : std::uint8_t { model, optimizer, average };
CheckpointFile file_of(const FlatArray& array);
bool has(const FlatArray& array, const Parameter& parameter);

/// A copy of a replica's parameters, running statistics, optimizer state and average in host
/// memory, so that training continues while a checkpoint is written. The memory is reserved, and
/// its pages touched, at construction. The graph must outlive it.
class Snapshot {
 public:
  explicit Snapshot(const SavedArrays& saved);
  /// Size of a snapshot of `arrays` flat arrays.
  static std::size_t bytes(const FlatSpace& space, std::size_t arrays);
  /// Copies from the device; ticks `position` (may be null) after each array. No other thread may
  /// read the tensors meanwhile. Where arrays are owned in parts all ranks call it, rank 0, and
  /// send_owned(), the others, at the same time.
  void take(Position* position = nullptr);
  /// Views of the copy, under the names that files have.
  std::vector<io::CheckpointTensor> model() const;
  std::vector<io::CheckpointTensor> optimizer() const;
  std::vector<io::CheckpointTensor> average() const;  ///< empty: there is none

 private:
  std::vector<io::CheckpointTensor> tensors(CheckpointFile file) const;

  SavedArrays saved_;
  std::vector<float> values_;  // the flat arrays, one after the other
};

/// Sends what this rank owns of `saved` to rank 0, which is in Snapshot::take().
void send_owned(const SavedArrays& saved);

/// Writes a checkpoint's tensors into the flat arrays on the device, of those that are owned in
/// parts this rank's. Throws DataError as io::load_weights(): names, shapes or types that do not
/// fit, all of them listed.
void restore(const SavedArrays& saved, const std::string& checkpoint);

}  // namespace lockstep
