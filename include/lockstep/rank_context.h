// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace lockstep {

class Backend;
class Communicator;
class Position;
class SharedPrograms;

/// What a rank works with: one device, and the ranks around it. A Job is one; a program hands it to
/// a Trainer, Replica or Predictor and asks it for rank() and size() alone.
class RankContext {
 public:
  RankContext();
  virtual ~RankContext();
  /// The device of this rank.
  virtual Backend& backend() = 0;
  /// All ranks, for what lies in the device's memory.
  virtual Communicator& communicator() = 0;
  /// All ranks, for what lies in host memory: never asks the device, which may be lost.
  virtual Communicator& host_communicator() { return communicator(); }
  /// What ranks of one process whose devices have no memory compile once for all of them, as in a
  /// simulation. Null: a process is one rank.
  virtual SharedPrograms* shared_programs() { return nullptr; }
  /// The number of this rank, 0 to size() - 1.
  int rank();
  /// How many ranks there are.
  int size();
  /// What this rank is doing: stage, step and phase.
  Position& position() { return *position_; }

 private:
  std::unique_ptr<Position> position_;
};

}  // namespace lockstep
