// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "parallel/comm/rank_context.h"
#include "parallel/session/fault_log.h"
#include "parallel/watchdog/watchdog.h"

namespace lockstep {

struct DeviceCard;

/// A process's part in a job: finds out from mpirun, srun, torchrun-style variables or their
/// absence which rank it is, connects the ranks, and opens the device. Construct it first in
/// main(). MPI is initialised only where there is more than one rank.
class Job final : public RankContext {
 public:
  /// `limits` are those of its watchdog; the ranks come together within join_s. Where TCP between
  /// them is blocked, rank 0 warns and no rank is watched. Throws EnvironmentError: the launcher's
  /// variables contradict each other, or no MPI connects several ranks; ConfigError: a misspelt
  /// LOCKSTEP_* variable.
  Job(int argc, char** argv, const WatchLimits& limits = {});
  ~Job() override;

  /// Opens this rank's device: "cpu", "cuda", or "auto", which is a GPU where one answers.
  /// Collective: either every rank has a device of the same kind afterwards, or all throw the same
  /// error, which names rank and host. To be called at most once, before backend() or
  /// communicator(), which otherwise open "auto". Throws EnvironmentError, OutOfMemory.
  void open_device(const std::string& device);

  Backend& backend() override;
  Communicator& communicator() override;
  Communicator& host_communicator() override;
  /// The ranks on host memory, without notes of where this one stands and without checks.
  Communicator& plain_communicator();
  Watchdog& watchdog();
  /// Where this rank's fault records go.
  FaultLog& fault_log();
  /// "mpirun (OMPI_COMM_WORLD_RANK)": the source of the rank.
  const std::string& source() const;
  /// The address of this rank's GPU on the PCI bus, empty where it is unknown; nothing where the
  /// ranks work on the CPU, which all of them do then.
  const std::optional<std::string>& gpu() const;
  /// What the user should know of the choice of the device; may be empty.
  const std::string& device_note() const;

 private:
  class State;
  void watch(const WatchLimits& limits, bool launched);
  /// By NCCL, or through MPI where that cannot be.
  void join_devices(std::span<const DeviceCard> cards);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
