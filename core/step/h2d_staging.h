// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"

namespace lockstep {

/// Copies micro-batches to a device. A device that copies concurrently with compute gets them on
/// the copy stream, into slots in its memory, while it still computes the previous micro-batch; a
/// copy within the device then fills the program's inputs. Micro-batches below kMinBytes, those
/// larger than training's (of an evaluation), and those of other devices, are copied straight into
/// the inputs: the second copy would cost more than the overlap hides. The smallest do not come
/// here: StepParamsUpload.
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
  /// Enqueues the copies of one micro-batch; the inputs are written after the work that is already
  /// in the compute stream. The device must have passed an event recorded after the previous copies
  /// of `slot`.
  void copy(std::size_t slot, std::array<Copy, 2> inputs);
  std::size_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  Backend& backend_;
  std::size_t slot_bytes_ = 0;
  std::unique_ptr<DeviceBuffer> memory_;  // [slots][slot_bytes_]; null: no staging
  std::vector<std::unique_ptr<DeviceEvent>> arrived_;
};

}  // namespace lockstep
