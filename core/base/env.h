// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

namespace lockstep {

/// Names and values of environment variables.
using VariableMap = std::map<std::string, std::string>;

/// Every LOCKSTEP_* variable, read here and nowhere else.
struct Env {
  std::optional<std::string> rank;        ///< LOCKSTEP_RANK: says the rank by hand
  std::optional<std::string> world_size;  ///< LOCKSTEP_WORLD_SIZE
  std::optional<std::string> local_rank;  ///< LOCKSTEP_LOCAL_RANK
  /// LOCKSTEP_STARTED: set by the program for the ranks that it starts itself: "terminal" where
  /// their output ends on one, otherwise "plain".
  std::optional<std::string> started;
  /// LOCKSTEP_RESTARTED: set by `lockstep run` from the second start on: what is in --out comes
  /// from an earlier one. Its text tells of the fault between (RestartFacts), or is "moved".
  std::optional<std::string> restarted;
  /// LOCKSTEP_SNAPSHOTS: set by `lockstep run`: the folder in memory for the ranks' snapshots.
  std::optional<std::string> snapshots;
  /// LOCKSTEP_SURVIVORS: set by `lockstep run` where ranks outlive the death of another one: the
  /// smallest number of them, a colon, and the restarts of the run before this start.
  std::optional<std::string> survivors;
  std::optional<std::string> test_data;  ///< LOCKSTEP_TEST_DATA: folder of real data for tests
  /// LOCKSTEP_TEST_SEED: a number; operator tests draw other inputs for another one.
  std::optional<std::string> test_seed;
  std::optional<std::string> dump;  ///< LOCKSTEP_DUMP: folder for graphs and plans as text
  /// LOCKSTEP_PLAN: "off" lets no two tensors share memory, "poison" fills memory with NaN as soon
  /// as its tensor is dead.
  std::optional<std::string> plan;
  /// LOCKSTEP_SYNC=1: waits for the device after every kernel, so that an error names the operator.
  std::optional<std::string> sync;
  /// LOCKSTEP_NAN_CHECK=1: every kernel's outputs are looked at, and the first operator that writes
  /// something that is not finite is named.
  std::optional<std::string> nan_check;
  /// LOCKSTEP_CHECK_COLLECTIVES=1: ranks agree on operation and size before each collective, and
  /// find out where they wait for each other in different communicators
  /// (parallel/comm/deadlock_detector.h).
  std::optional<std::string> check_collectives;
  /// LOCKSTEP_CLEAR=0: memory of a GPU is not set to zero when it is reserved, for tools that find
  /// reads of memory that was never written; what training relies on zeros for goes wrong.
  std::optional<std::string> clear;
  /// LOCKSTEP_GRAPH=0: steps are not captured as graphs of a device that takes them. nccl: what
  /// NCCL moves is captured with them, and not begun by the host between graphs.
  std::optional<std::string> graph;
  /// LOCKSTEP_DEPENDENT_LAUNCH=1: own kernels of a GPU that has it (compute capability 9.0) are
  /// launched before the one before them has ended, and wait on the device.
  std::optional<std::string> dependent_launch;
  /// LOCKSTEP_NCCL: "off" sends gradients of GPUs through MPI, "shared" uses NCCL even where ranks
  /// share a GPU, for tests.
  std::optional<std::string> nccl;
  /// LOCKSTEP_CUDA_PATH: folders, between colons, where NVIDIA's libraries are looked for first.
  std::optional<std::string> cuda_path;
  /// LOCKSTEP_CHECKPOINT_PARTS: "small" lets all ranks write a checkpoint however small it is, for
  /// tests; see snapshot_parts().
  std::optional<std::string> checkpoint_parts;
  /// LOCKSTEP_FAULT: faults to play, for tests; see core/base/fault_plan.h.
  std::optional<std::string> fault;
};

/// Picks the LOCKSTEP_* variables out of `variables`; an empty value counts as unset.
/// Throws ConfigError: an unknown LOCKSTEP_* name (the nearest valid one is offered), a value
/// that is none of its variable's two, a seed that is not a number below 2^32.
Env parse_env(const VariableMap& variables);

/// The variables of this process.
VariableMap process_variables();

/// The variables of this process as they were at the first call. Throws as parse_env().
const Env& env();

}  // namespace lockstep
