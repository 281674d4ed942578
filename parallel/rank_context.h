// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/exec/position.h"

namespace lockstep {

/// What a rank works with: one device and the ranks around it. launcher/job.h provides one.
class RankContext {
 public:
  virtual ~RankContext() = default;
  virtual Backend& backend() = 0;
  virtual Communicator& communicator() = 0;
  /// The same ranks, for what lies in host memory: never asks the device, which may be lost.
  virtual Communicator& host_communicator() { return communicator(); }
  int rank() { return host_communicator().rank(); }
  int size() { return host_communicator().size(); }
  /// Where this rank stands.
  Position& position() { return position_; }
  /// Bytes of the device's memory that the library of its collectives was seen to take, until the
  /// context ends.
  std::uint64_t collectives_bytes() const { return collectives_bytes_; }
  void add_collectives_bytes(std::uint64_t bytes) { collectives_bytes_ += bytes; }

 private:
  Position position_;
  std::uint64_t collectives_bytes_ = 0;
};

}  // namespace lockstep
