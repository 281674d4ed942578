// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/exec/backend.h"
#include "core/graph/graph.h"

namespace lockstep {

/// Copies StepCounters to a device that captures graphs: from slots in host memory, one for each
/// micro-batch that may be under way, to one place in device memory. Where the inputs of a
/// micro-batch are few bytes, they follow the counters there, and are part of the same copy: each
/// copy takes a GPU some two microseconds, however small.
class StepParamsUpload {
 public:
  static constexpr std::size_t kMaxInputBytes = 16384;

  /// Bytes of the place in device memory. `graph`: the training program of a whole micro-batch.
  static std::size_t device_bytes(const DeviceTraits& traits, const Graph& graph);
  /// Of a place of that size: where inputs lie, as input_offsets() has them. Null: they do not fit,
  /// or some are not the host's.
  static std::byte* inputs_in(DeviceBuffer& place, const Graph& graph);

  /// `place`: of device_bytes(), and outlives this; null: its own.
  StepParamsUpload(Backend& backend, const Graph& graph, int slots, DeviceBuffer* place);

  /// In device memory. Null where the device captures no graphs; send() without inputs does nothing
  /// then.
  const StepCounters* on_device() const;
  /// Sets the counters of every send() from now on.
  void begin_step(const StepCounters& counters) { counters_ = counters; }
  /// Enqueues the copy. The previous copy from `slot` must be complete.
  void send(std::size_t slot, std::uint64_t first_sample);
  struct Input {
    void* to = nullptr;  ///< in the place; null: not read
    const void* from = nullptr;
    std::size_t bytes = 0;
  };
  /// With inputs, of any host memory.
  void send(std::size_t slot, std::uint64_t first_sample, std::span<const Input> inputs);
  /// Whether an input, of which this is the address, is copied by that.
  bool holds(const void* input) const;
  /// Of device memory, which slots are part of where the device is the host.
  std::size_t bytes() const {
    return device_->bytes() + (backend_.traits().copies_beside_compute ? 0 : slots_->bytes());
  }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> own_;
  DeviceBuffer* device_;
  std::size_t slot_bytes_;
  std::unique_ptr<DeviceBuffer> slots_;
  StepCounters counters_;
};

}  // namespace lockstep
