// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/builder.h"
#include "lockstep/data/dataset.h"
#include "lockstep/train_options.h"
#include "parallel/simulation/cluster.h"

/// Note [Simulation]
///
/// A simulated run is Trainer::fit() on every rank: planner, sampler, schedule, exchange, stop
/// agreement and comparisons are the library's own. What is below them is not there: the device
/// (SimulatedDevice) computes nothing and says what it would take, the communicators say what they
/// would send, and ranks are fibers of one thread (RankScheduler). Bytes in host memory travel, so
/// that ranks agree and disagree as they would. What is equal on all ranks they have once:
/// programs (SharedPrograms), schedules and plans of exchanges (SharedValues), lists of a call
/// (CallScratch). A rank of its own takes its stack and little more.
///
/// Exact, whatever the numbers of the models: which collectives each rank calls in which order with
/// which sizes; that all come to their end for any order of arrival that was tried; which samples
/// are loaded, by whom, how often; how each gradient was summed up (SumTrace). Modelled: times.
/// Collectives in stream order wait on the host until all have come, which NCCL's do not: what ends
/// here ends there. Not there: threads of loaders, NCCL's and MPI's own algorithms, a rank's start
/// before Trainer::fit() (Job), and the watchdog, whose judgement detect() has in a job's hours of
/// faults. Checkpoints are written where the options name a folder: Note [Crash points].
namespace lockstep::simulation {

struct SimulationRequest {
  ClusterOptions cluster;
  ModelFunction model;
  LossFunction loss;
  data::SampleSpec samples;
  std::int64_t dataset_size = 0;  ///< samples of an epoch
  TrainOptions options;
  std::vector<int> pictured_ranks = {};  ///< whose last step is kept as spans

  // For tests, which plant mistakes; empty: as it is.
  std::function<std::unique_ptr<Communicator>(int rank, std::unique_ptr<Communicator> own)>
      wrap_communicator = {};
  std::function<std::shared_ptr<const data::Dataset>(std::shared_ptr<const data::Dataset> own)>
      wrap_samples = {};
  std::function<void(int rank, TrainOptions& options)> change_options = {};
};

/// From the end of rank 0's update in the step before to that in this one.
struct SimulatedStep {
  double begin = 0, end = 0;
  double exposed = 0;  ///< of that, rank 0 waited for what others sent
};

struct SimulationResult {
  std::vector<RankEnd> ends;     ///< by rank
  std::vector<Traffic> startup;  ///< by rank, before the first step
  std::vector<Traffic> all;      ///< by rank
  std::vector<SimulatedStep> steps;
  double startup_s = 0;          ///< simulated, to the first step
  double startup_exposed_s = 0;  ///< of that, rank 0 waited for others
  /// Samples by how often they were loaded, of each epoch that was begun.
  std::map<std::uint64_t, std::map<int, std::int64_t>> loads;
  std::int64_t min_micro_batches = 0, max_micro_batches = 0;  ///< of a rank, in a whole step
  /// Elements that ranks updated from followed sums, each once a step; and those that they have to.
  std::int64_t checked_elems = 0, expected_elems = 0;
  std::int64_t wrong_sum_count = 0;
  std::vector<std::string> wrong_sums;  ///< the first few
  /// How rank 0's first update found the gradients of its micro-batches summed; kUnknown: sums were
  /// not followed.
  Expression tree = kUnknown;
  std::int64_t parameter_elems = 0;  ///< of the flat space
  KernelMatches kernels;             ///< with DeviceModel::times
  double wall_s = 0;
  std::uint64_t peak_bytes = 0;  ///< of this process
  std::map<int, std::vector<Span>> spans;
  std::vector<std::vector<LinkUse>> link_uses;  ///< by host, of the whole run
};

/// Throws what a run throws on all ranks alike before ranks meet (ConfigError of the options).
/// What ends single ranks is in the result.
SimulationResult simulate(const SimulationRequest& request);

/// T of Note [Reduction tree] over the shards of a step of `samples` samples, whoever computes
/// them: the same for every number of ranks.
Expression expected_sum(const TrainOptions& options, int ranks, std::int64_t samples);

}  // namespace lockstep::simulation
