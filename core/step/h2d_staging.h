// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"

namespace lockstep {

/// How micro-batches come to a device that copies beside its computing: into slots in its memory on
/// the copy stream, while it still computes the micro-batch before, and from there into the
/// program's inputs. Smaller ones than kMinBytes, and those of other devices, go straight into
/// the inputs: a copy within the device would cost more than is hidden.
class H2dStaging {
 public:
  static constexpr std::size_t kMinBytes = std::size_t{1} << 20;

  /// `graph`: the training program of a whole micro-batch. Throws OutOfMemory.
  H2dStaging(Backend& backend, const Graph& graph, int slots);

  struct Copy {
    void* to = nullptr;          ///< device memory
    const void* from = nullptr;  ///< of Backend::allocate_host()
    std::size_t bytes = 0;
  };
  /// Asks for the copies of one micro-batch, behind what was asked of the compute stream. What used
  /// `slot` before must have happened up to an event recorded behind its copies.
  void copy(std::size_t slot, std::array<Copy, 2> inputs);
  std::size_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  Backend& backend_;
  std::size_t slot_bytes_ = 0;
  std::unique_ptr<DeviceBuffer> memory_;  // [slots][slot_bytes_]; null: straight
  std::vector<std::unique_ptr<DeviceEvent>> arrived_;
};

}  // namespace lockstep
