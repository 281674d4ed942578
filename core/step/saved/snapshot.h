// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/exec/position.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/step/saved/saved_arrays.h"

namespace lockstep {

/// A copy of this rank's part of a replica's parameters, running statistics, optimizer state and
/// average in host memory, so that training continues while a checkpoint is written. The memory is
/// reserved (copied_bytes()), and its pages touched, at construction. The graph must outlive it.
class Snapshot {
 public:
  /// `parts`: of all ranks, by rank; see snapshot_parts().
  Snapshot(const SavedArrays& saved, std::span<const FlatRange> parts, int rank);
  /// Copies from the device; ticks `position` (may be null) after each array. No other thread may
  /// read the tensors meanwhile. Where arrays are owned in parts all ranks call it at the same
  /// time, those with nothing to copy too.
  void take(Position* position = nullptr);
  /// Views of the copy, under the names that files have: of all tensors of the file, those of other
  /// ranks' parts without values.
  std::vector<io::CheckpointTensor> model() const;
  std::vector<io::CheckpointTensor> optimizer() const;
  std::vector<io::CheckpointTensor> average() const;  ///< empty: there is none

 private:
  struct Copy {
    FlatRange range;                ///< of the flat space
    std::size_t place = 0;          ///< in values_
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
