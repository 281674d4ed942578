// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/exec/position.h"

namespace lockstep {

/// What a rank works with: one device and the ranks around it. parallel/session/job.h provides one.
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

 private:
  Position position_;
};

}  // namespace lockstep
