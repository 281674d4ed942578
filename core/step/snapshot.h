// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
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

/// A copy of this rank's part of a replica's parameters, running statistics, optimizer state and
/// average in host memory, so that training continues while a checkpoint is written. The memory is
/// reserved, and its pages touched, at construction. The graph must outlive it.
class Snapshot {
 public:
  /// `parts`: of all ranks, by rank; see snapshot_parts().
  Snapshot(const SavedArrays& saved, std::span<const FlatRange> parts, int rank);
  /// Size of the snapshot of one part.
  static std::size_t bytes(const SavedArrays& saved, const FlatRange& part);
  /// Copies from the device; ticks `position` (may be null) after each array. No other thread may
  /// read the tensors meanwhile. Where arrays are owned in parts all ranks call it at the same time,
  /// those with nothing to copy too.
  void take(Position* position = nullptr);
  /// Views of the copy, under the names that files have: of all tensors of the file, those of other
  /// ranks' parts without values.
  std::vector<io::CheckpointTensor> model() const;
  std::vector<io::CheckpointTensor> optimizer() const;
  std::vector<io::CheckpointTensor> average() const;  ///< empty: there is none

 private:
  struct Copy {
    FlatRange range;              ///< of the flat space
    std::size_t place = 0;        ///< in values_
    std::vector<FlatRange> ranges;  ///< of all ranks, where the array is owned in parts
  };
  std::vector<io::CheckpointTensor> tensors(CheckpointFile file) const;

  SavedArrays saved_;
  std::vector<Copy> copies_;   // by array
  std::vector<float> values_;  // the copies, one after the other
};

/// Writes a checkpoint's tensors into the flat arrays on the device, of those that are owned in
/// parts this rank's. Throws DataError as io::load_weights(): names, shapes or types that do not
/// fit, all of them listed.
void restore(const SavedArrays& saved, const std::string& checkpoint);

}  // namespace lockstep
