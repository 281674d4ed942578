// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/lap_timer.h"
#include "core/data/loader.h"
#include "core/exec/profiler.h"
#include "core/exec/range_marker.h"
#include "core/io/load_weights.h"
#include "core/nn/builder.h"
#include "core/step/device_timer.h"
#include "core/step/graph_cache.h"
#include "core/step/graph_use.h"
#include "core/step/step_result.h"
#include "parallel/comm/rank_context.h"
#include "parallel/replica/memory_table.h"
#include "parallel/replica/nonfinite_locator.h"
#include "parallel/replica/program_set.h"
#include "parallel/replica/replica_parts.h"
#include "parallel/replica/step_times.h"

namespace lockstep {

/// A rank's programs for its part of a batch.
struct ReplicaPrograms {
  RankContext& context;
  TrainOptions options;
  BatchPlan batch;
  ProgramSet programs;

  ReplicaPrograms(RankContext& context,
                  const ModelFunction& model,
                  const LossFunction& loss,
                  const data::SampleSpec& samples,
                  const TrainOptions& options,
                  std::vector<std::int64_t> tail_sizes);
};

/// The inside of a Replica; listens to its own backward pass to start exchanges.
class ReplicaState final : public BucketListener, public ReplicaPrograms, public ReplicaParts {
 public:
  ReplicaState(RankContext& context,
               const ModelFunction& model,
               const LossFunction& loss,
               const data::SampleSpec& samples,
               const TrainOptions& options,
               std::vector<std::int64_t> tail_sizes);

  void lend_memory(data::LoaderOptions& loading) const;
  void compile_for_evaluation(std::int64_t samples);
  std::span<const StepResult> train_step(const Schedule& schedule,
                                         data::Loader& loader,
                                         std::int64_t step,
                                         float lr);
  std::optional<StepResult> evaluate(const Schedule& schedule,
                                     data::Loader& loader,
                                     const std::function<bool()>& interrupted);

  std::vector<NonFiniteFinding> find_nonfinite(const Schedule& schedule,
                                               data::Loader& loader,
                                               std::int64_t step);

  void on_bucket_complete(int bucket) override { start_bucket(bucket); }
  void between_kernels() override;

  double moving_seconds() const { return exchanging_; }
  /// All that is reserved, by category.
  MemoryTable memory() const {
    MemoryTable table = tabulate(programs.compiled(), programs.buffers(), programs.packed(), *this);
    table.arena_bytes += programs.late_arena_bytes();
    *table[MemoryCategory::activations] += programs.late_arena_bytes();
    return table;
  }
  std::optional<GraphUse> graph_use() const;

  std::optional<io::LoadReport> initial_weights;  // where TrainOptions::init named a file
  StepTimes times;
  DeviceTimer device_timer;
  /// Of a GPU, with everything made that a step needs; see context_part().
  std::optional<std::uint64_t> context_bytes;
  std::unique_ptr<Profiler> profiler;  ///< null: nobody asked

 private:
  /// What a step asks of the device between the loading of one micro-batch and the next.
  struct StepSegment {
    const Schedule* schedule = nullptr;
    int round = 0;  ///< its place in the step
    std::int64_t step = 0;
    float lr = 0;
    const BoundProgram* program = nullptr;  ///< null: no micro-batch, the exchange alone; for
                                            ///< 0 samples: to join batch norm's collectives
    const ShardWork* shard = nullptr;
    bool ends_shard = false;  ///< the shard's sum is added to those before; not for the last one
    bool ends_step = false;   ///< exchange and update follow
    RunState state = {};
  };

  /// Batch norm's group as kernels of a step see it.
  class StepGroup final : public KernelGroup {
   public:
    explicit StepGroup(ReplicaState& state) : state_(state) {}
    int size() const override { return state_.group_->size(); }
    void all_gather(const void* send, void* recv, std::size_t bytes) override {
      state_.by_host(
          [state = &state_, send, recv, bytes] { state->group_->all_gather(send, recv, bytes); });
    }

   private:
    ReplicaState& state_;
  };

  void initialise_parameters();
  void load_initial_weights();
  void load(const BoundProgram& program, data::Loader& loader, std::uint64_t first_sample);
  std::size_t next_slot();
  void send_counters();
  /// Whether a rank of a batch-norm group has fewer micro-batches than others of it.
  bool rounds_differ(const Schedule& schedule) const;
  /// Whether the step's exchange begins behind the last round, in a segment of its own.
  bool exchanges_apart(const Schedule& schedule) const;
  void begin_step(const Schedule& schedule, std::int64_t step, float lr);
  /// By a graph's launch where it can be, otherwise by launch_eagerly().
  void run_segment(const StepSegment& segment);
  void launch_eagerly(const StepSegment& segment);
  void replay(const StepSegment& segment, const CapturedWork& work);
  /// Whether all ranks have captured it, where its collectives are captured with it.
  bool agree(const StepSegment& segment, bool captured);
  /// Collective over `ranks`.
  static bool all_say(Communicator& ranks, bool yes);
  GraphKey graph_key(const StepSegment& segment) const;
  std::string reason_against_graphs() const;
  /// Whether collectives of NCCL stand in every segment, not just in a step's last.
  bool captures_by_place() const;
  bool captures_now() const;
  /// Does what only the host can do, unless it stands in stream order: what MPI moves, and sums of
  /// shards. Cuts the capture under way; replays do it in the same phase.
  template <typename Work>
  void by_host(Work work) {
    if (capture_ == nullptr || exchange.in_stream_order()) return work();
    capture_->cut_for_host([this, phase = context.position().read().phase, work] {
      context.position().enter(phase);
      work();
      move_exchange();  // a replay comes to no place between kernels
    });
  }
  void move_exchange();
  void set_sample_weight(const Schedule& schedule);
  void copy_sample_weight(const BoundProgram& program);
  void check_labels(const data::LoadedBatch& loaded) const;
  /// Returns its seconds.
  double run(Program& program, const RunState& state, bool exchange_after);
  void start_bucket(int bucket);
  void start_exchange(int bucket);
  void start_all_buckets();
  void finish_shard(const StepSegment& segment);
  void end_shard(const ShardWork& shard, const Schedule& schedule);
  void declare_profile();
  void declare_ranges();
  void finish_bucket(int bucket);
  /// Calls run(program, round) for each round of the batch-norm group that this rank has no
  /// micro-batch for: ranks of a group run the same number, and one that has fewer takes part in
  /// the collectives with no samples. It starts its exchange afterwards, since those rounds still
  /// write (zero more) into the gradients that would be on their way.
  template <typename Run>
  void join_missing_rounds(const Schedule& schedule, Run run) {
    const BoundProgram& none = programs.training(0);
    for (int round = own_rounds(schedule); round < schedule.rounds; ++round) {
      copy_sample_weight(none);
      run(none, round);
    }
  }
  static int own_rounds(const Schedule& schedule);
  void update(const StepSegment& segment);
  void read_metrics(StepResult& result);
  /// `first_sample`: of the micro-batch that has run; -1: none.
  void end_round(std::int64_t first_sample);
  void stop_where_found(const Schedule& schedule, std::int64_t step);
  /// A planned fault, in step number `step` alone.
  void play_nan(std::int64_t step);

  ModelFunction model_;
  LossFunction loss_;
  data::SampleSpec samples_;
  std::unique_ptr<Communicator> group_;  // of batch norm; null: groups are local
  StepGroup step_group_{*this};
  bool on_host_;  // the device is the processor itself
  /// Behind the copies of the last micro-batches, in turn. Those before have been made.
  std::array<std::unique_ptr<DeviceEvent>, kHeldMicroBatches> copied_;
  std::size_t next_copied_ = 0;
  NonFiniteLocator search_;
  bool checks_always_ = false, checks_ = false;  // kernels' outputs, for search_
  bool plays_nan_ = false;
  bool overlaps_ = true;     // the exchange, with backward, in this step
  bool adds_norms_ = false;  // to shard_norms, in this step
  int data_work_ = -1, copy_work_ = -1, wait_work_ = -1, moving_work_ = -1, optimizer_work_ = -1;
  std::vector<int> bucket_work_;
  std::vector<Profiler::Clock::time_point> bucket_start_;
  RangeMarker* ranges_;                       // null: nobody sees them
  std::vector<int> bucket_names_;             // [buckets], the marker's
  std::vector<std::uint64_t> bucket_ranges_;  // [buckets], open from start to end of an exchange
  // Seconds, of the last micro-batch: in load(), and of them in the loader and for the device.
  double loading_ = 0, fetching_ = 0, holding_up_ = 0;
  LapTimer timer_;  // of load(), run() and what comes between them in a step
  GraphCache graphs_;
  WorkCapture* capture_ = nullptr;                // the one under way
  std::map<std::int64_t, SentBytes> bytes_sent_;  // of a step, by the samples of its batch
  std::string why_no_graphs_;                     // empty: segments are captured
  std::int64_t replays_ = 0;
  std::int64_t steps_ = 0,
               observed_steps_ = 0;  // since construction; whose phases or gradients were
  double exchanging_ = 0;            // seconds of moving exchanges along, among those of backward
};

}  // namespace lockstep
