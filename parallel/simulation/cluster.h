// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/exec/communicator.h"
#include "core/profile/kernel_times.h"
#include "parallel/simulation/link_times.h"
#include "parallel/simulation/rank_scheduler.h"
#include "parallel/simulation/sum_trace.h"
#include "parallel/simulation/traffic.h"

namespace lockstep::simulation {

/// How fast the device of a rank is.
struct DeviceModel {
  DevicePeaks peaks = {.fp32_flops = 1e12, .bf16_flops = 2e12, .bytes = 1e11};
  /// Of the host, to hand a kernel or a collective to the device.
  double launch_s = 3e-6;
  /// Of the link between host and device.
  double copy_bytes_per_s = 25e9;
  /// Steps of a rank take exp(spread * z - spread^2 / 2) as long, with z from the standard normal
  /// distribution by rank and step, so that their mean stays.
  double spread = 0;
  bool gpu = true;  ///< otherwise the ranks compute and exchange as on processors
  /// Measured; null: what `peaks` allow. Has `peaks`, `launch_s` and `gpu` too, which are set from
  /// it; steps differ by its factors where `spread` is 0.
  std::shared_ptr<const KernelTimes> times = {};
  /// Cores of a host, which its ranks share, taking turns; they also move what ranks of a host
  /// send each other. 0: each rank has one of its own. With `gpu` of no meaning.
  int cores = 0;
  /// All that cores do takes as many times as long once all of a host's work: they share memory,
  /// caches and clock. Note [Cost model] in cost_model.h.
  double contention = 1;
  /// A rank that has waited for others, and shares its core, continues so much later: MPI yields
  /// the core, and the scheduler gives it back after the turn of another rank.
  double turn_s = 0;
};

/// What a rank was busy with, for an image.
struct Span {
  enum class Track : std::uint8_t { compute, communication, network };
  Track track = Track::compute;
  double begin = 0, end = 0;
  std::string name;
};

struct ClusterOptions {
  int ranks = 1;
  Network network;
  DeviceModel device = {};
  RankOrder order = RankOrder::by_time;
  std::uint64_t seed = 1;        ///< of what is drawn in the models
  std::uint64_t order_seed = 1;  ///< of RankOrder::random
  /// Whether the sums of gradients are traced: who added what to what. Collectives among many ranks
  /// without hosts take memory for each pair then.
  bool traces_sums = false;
};

class SimulatedDevice;

/// The end of a step on rank 0.
struct StepEnd {
  double time = 0;
  double exposed = 0;  ///< seconds since the start in which it waited for the exchange
};

/// Names of kernels that ran: measured ones, and those that are taken to need what
/// DeviceModel::peaks allow.
struct KernelMatches {
  std::set<std::string> measured, missing;
};

/// All that simulated ranks have in common: whose turn it is, the links, what each has sent.
class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  const ClusterOptions& options() const { return options_; }
  RankScheduler& scheduler() { return scheduler_; }
  LinkTimes& links() { return links_; }
  Traffic& traffic(int rank) { return traffic_[std::size_t(rank)]; }
  /// Null where sums are not traced.
  TracedMemory* memory(int rank) {
    return memories_.empty() ? nullptr : &memories_[std::size_t(rank)];
  }

  /// The device of the rank that runs.
  SimulatedDevice& device() { return *devices_[std::size_t(scheduler_.rank())]; }
  void set_device(int rank, SimulatedDevice* device) { devices_[std::size_t(rank)] = device; }

  /// Readable memory that nothing should be written to, one for all ranks: where micro-batches
  /// would lie on their way to the device.
  std::byte* host_memory(std::size_t bytes);

  /// The gradients of step `step` that a rank updates from must be sums like `sum`.
  void expect_sum(std::int64_t step, Expression sum) { expected_[step] = sum; }
  /// Called before each phase of an update that reads them. Each element counts once a step.
  void check_sum(std::int64_t step, const float* gradients, std::int64_t elems);
  std::int64_t checked_elems() const { return checked_elems_; }
  /// Of the first update; kUnknown: there was none.
  Expression first_sum() const { return first_sum_; }
  /// What was wrong with sums, the first few; and how often something was.
  const std::vector<std::string>& wrong_sums() const { return wrong_sums_; }
  std::int64_t wrong_sum_count() const { return wrong_sum_count_; }

  /// What the communicators of all ranks have in common, of two kinds; theirs.
  std::shared_ptr<void>& shared_by_communicators(std::size_t kind) { return shared_[kind]; }

  /// Rank 0 has updated its weights in step `step` (from 0); the last update counts.
  void end_step(std::int64_t step, const StepEnd& end) { step_ends_[step] = end; }
  const std::map<std::int64_t, StepEnd>& step_ends() const { return step_ends_; }

  /// The rank that runs has work of `seconds` for a core, by itself: waits for its turn, and
  /// returns when it began. Ranks take turns kernel by kernel, in the order of their clocks.
  double use_core(double seconds);
  /// Of the rank that runs, which has waited for others: until it has a core again.
  void wait_for_turn();
  /// Of kernels that ran.
  KernelMatches& matches() { return matches_; }

  /// From now on what rank `rank` is busy with is kept.
  void keep_spans(int rank) { spans_[rank]; }
  void add_span(int rank, Span span);
  const std::map<int, std::vector<Span>>& spans() const { return spans_; }

 private:
  const ClusterOptions options_;
  RankScheduler scheduler_;
  LinkTimes links_;
  std::vector<Traffic> traffic_;
  std::vector<TracedMemory> memories_;
  std::vector<SimulatedDevice*> devices_;
  std::array<std::shared_ptr<void>, 2> shared_;
  std::byte* host_memory_ = nullptr;
  std::map<std::int64_t, Expression> expected_;
  Expression first_sum_ = kUnknown;
  std::int64_t checked_elems_ = 0, wrong_sum_count_ = 0;
  std::vector<std::string> wrong_sums_;
  std::map<std::int64_t, StepEnd> step_ends_;
  std::vector<std::vector<double>> cores_;  // by host: free from
  double slowness_ = 1;                     // of cores
  bool are_shared_ = false;                 // cores
  KernelMatches matches_;
  std::map<int, std::vector<Span>> spans_;
};

/// The communicator of all ranks, for rank `rank`. `in_stream_order`: as NCCL's; otherwise as
/// MPI's. All of a cluster's are made before any is used.
std::unique_ptr<Communicator> make_simulated_communicator(Cluster& cluster,
                                                          int rank,
                                                          bool in_stream_order);

}  // namespace lockstep::simulation
