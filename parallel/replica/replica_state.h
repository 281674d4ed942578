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
#include <utility>
#include <vector>

#include "core/profile/profiler.h"
#include "core/profile/range_marker.h"
#include "core/step/device_timer.h"
#include "core/step/saved/snapshot.h"
#include "core/step/step_graphs.h"
#include "lockstep/builder.h"
#include "lockstep/data/loader.h"
#include "lockstep/rank_context.h"
#include "lockstep/step_result.h"
#include "lockstep/weights.h"
#include "parallel/replica/lap_timer.h"
#include "parallel/replica/memory_table.h"
#include "parallel/replica/nonfinite_locator.h"
#include "parallel/replica/program_set.h"
#include "parallel/replica/replica_parts.h"
#include "parallel/replica/step_times.h"

namespace lockstep {

class Replica;

/// The inside of a Replica: what its members do, and what the Trainer, monitors and benchmarks need
/// of it beyond those. Collective as they are.
class ReplicaState {
 public:
  static ReplicaState& of(const Replica& replica);
  static std::unique_ptr<Replica> make_replica(std::unique_ptr<ReplicaState> state);

  /// `batch` is plan_batch(options, context.size()); the rest as Replica's. Throws ConfigError: the
  /// model has other parameters for samples of an evaluation.
  ReplicaState(RankContext& context,
               const ModelFunction& model,
               const LossFunction& loss,
               const RunSamples& samples,
               const TrainOptions& options,
               const BatchPlan& batch,
               std::vector<std::int64_t> tail_sizes);

  /// See Replica::initialise_from().
  void initialise_from(const data::Dataset& training);
  void lend_memory(data::LoaderOptions& loading) const;
  void compile_for_evaluation(std::int64_t samples);
  /// Throws ConfigError: see Replica::schedule().
  void expect_trainable(const Schedule& schedule) const;
  std::span<const StepResult> train_step(const Schedule& schedule,
                                         data::Loader& loader,
                                         std::int64_t step,
                                         float lr);
  std::optional<StepResult> evaluate(const Schedule& schedule,
                                     data::Loader& loader,
                                     const std::function<bool()>& interrupted);
  /// See Replica::finish_steps().
  std::span<const StepResult> take_results();
  void resume_updates();
  std::optional<GraphUse> graph_use() const;

  /// Computes the micro-batches of step `step` again, forward and backward with the current
  /// weights, and checks all loaded samples and all kernel outputs for non-finite values. Exchanges
  /// and updates nothing, but overwrites this rank's gradients. `loader` delivers the micro-batches
  /// as for train_step(). Returns the findings, equal on all ranks.
  std::vector<NonFiniteFinding> find_nonfinite(const Schedule& schedule,
                                               data::Loader& loader,
                                               std::int64_t step);
  /// Where the steps' time went.
  StepTimes times() const;
  /// The memory that is reserved, by category; loader and snapshot are not part of it.
  MemoryTable memory() const;
  /// The arrays that a checkpoint saves; valid as long as the replica.
  SavedArrays saved_arrays();
  /// Loads parameters, running statistics and optimizer state of a verified checkpoint, then calls
  /// resume_updates(). Throws DataError: it belongs to another model.
  void restore(const std::string& checkpoint);
  /// The weights become their average and the other way round, until it is called again. Between
  /// steps. See AverageScope.
  void swap_average();
  /// The parameters of this rank are fp32 values everywhere, also where it holds weights of other
  /// owners as kernels read them since the last update: Note [Weights in bf16]. Between steps.
  /// Collective, where they are not already, on all ranks alike.
  void gather_weights();
  /// Injects a fault: flips bit `bit` (0 to 31) of element `index` of array `array`, on this rank
  /// alone, between steps. Array 0 holds the parameters and running statistics, later ones the
  /// optimizer's, in the order of saved_arrays(). `index` counts over the array's
  /// compared_tensors(), modulo their elements. Returns the tensor's name, "conv1.weight.exp_avg".
  /// Throws ConfigError: the array, element or bit does not exist.
  std::string flip_bit(std::size_t array, std::int64_t index, int bit);
  /// Text of graph, flat space and plan: equal on every rank, part of the fingerprint.
  std::string program_text();

  RankContext& context;
  TrainOptions options;
  BatchPlan batch;
  ProgramSet programs;
  ReplicaParts parts;
  std::optional<io::LoadReport> initial_weights;  // where TrainOptions::init named a file
  /// Parameters that wait for initialise_from(): neither loaded nor restored.
  std::vector<std::string> from_training_data;
  DeviceTimer device_timer;
  /// Of a GPU, with everything made that a step needs; see context_part().
  std::optional<std::uint64_t> context_bytes;
  std::unique_ptr<Profiler> profiler;  ///< null without TrainOptions::profile

 private:
  /// The work of a step between the loading of one micro-batch and the next.
  struct Segment final : public StepSegment {
    explicit Segment(ReplicaState& of) : replica(of) {}
    const StepPlan& plan() override { return replica.plan(*this); }
    void run(const StepPart& part, bool eagerly) override { replica.run(*this, part, eagerly); }
    bool agree(bool captured) override { return replica.agree(*this, captured); }
    void undo() override {
      replica.parts.exchange.undo_capture(place, sent);
      replica.parts.undo_update(update_sent);
      replica.programs.packed().invalidate();
    }

    ReplicaState& replica;
    const Schedule* schedule = nullptr;
    int round = 0;  ///< its place in the step
    std::int64_t step = 0;
    float lr = 0;
    const BoundProgram* program = nullptr;  ///< null: no micro-batch, the exchange alone; for
                                            ///< 0 samples: to join batch norm's collectives
    const ShardWork* shard = nullptr;
    bool ends_shard = false;  ///< the shard's sum is added to those before; not for the last one
    bool exchanges = false;   ///< the exchange of a turn follows
    bool ends_step = false;   ///< that of the last turn, and then the update
    RunState state = {};
    bool overlaps = true;     ///< the exchange, with backward
    bool adds_norms = false;  ///< to shard_norms
    /// State at its begin: of the exchange, and StepTimes::moving_exchanges. Seconds exposed, then
    /// at the end of a phase.
    ShardPlace place = {};
    SentBytes sent = {};
    UpdateSent update_sent = {};
    double moving = 0, exposed = 0;
    double forward = 0;  ///< seconds of forward, where that ran eagerly
  };

  /// Copies of micro-batches to the device.
  struct Upload {
    /// Recorded after the copies of the last micro-batches, in turn. Earlier copies are complete.
    std::array<std::unique_ptr<DeviceEvent>, ReplicaParts::kHeldMicroBatches> copied;
    std::size_t newest = 0;
    /// Seconds of the newest: of loading and copying; of those in the loader; of waiting for the
    /// device before; and of the teacher's forward after it.
    double loading = 0, fetching = 0, device_wait = 0, teaching = 0;
  };

  /// The search for non-finite values.
  struct Checks {
    NonFiniteLocator locator;
    bool always = false, now = false;  ///< check kernels' outputs
    bool injects_nan = false;          ///< a planned fault is active
  };

  /// Indices that the profiler and the range marker have for work other than operators.
  struct Probes {
    RangeMarker* ranges = nullptr;  // null: no tool is attached
    int data = -1, copy = -1, sums = -1, wait = -1, moving = -1, optimizer = -1;
    std::vector<int> bucket_work, bucket_names;        // [buckets]: profiler's, marker's
    std::vector<Profiler::Clock::time_point> started;  // [buckets]
    std::vector<std::uint64_t> open_ranges;  // [buckets], from start to end of an exchange
  };

  // replica_state.cpp: before step 1, and copies of micro-batches to the device.
  void initialise_parameters();
  void load_initial_weights();
  /// Empty: segments of steps are captured.
  std::string reason_against_graphs() const;
  void declare_profile();
  void declare_ranges();
  void load(const BoundProgram& program, data::Loader& loader, std::uint64_t first_sample);
  /// Where there is a teacher, it predicts the micro-batch that was loaded.
  void ask_teacher(const BoundProgram& program);
  std::size_t next_slot();
  void send_counters();
  void set_sample_weight(const Schedule& schedule);
  void copy_sample_weight(const BoundProgram& program);
  void check_labels(const data::LoadedBatch& loaded) const;

  // replica_step.cpp: a step as plans, run eagerly, captured or replayed.
  void begin_step(Segment& segment);
  /// Whether a rank of a batch-norm group has fewer micro-batches than others of it.
  bool rounds_differ(const Schedule& schedule) const;
  /// Whether the exchange of the last turn begins after the last round, in a segment of its own.
  bool exchanges_apart(const Schedule& schedule) const;
  /// plan_, made for the segment where it was made for another kind.
  const StepPlan& plan(const Segment& segment);
  void run_segment(Segment& segment);
  void run(Segment& segment, const StepPart& part, bool eagerly);
  void enter_phase(const Segment& segment, StepWork work);
  void end_phase(Segment& segment, StepWork work);
  void account_replay(const Segment& segment);
  /// Whether all ranks have captured it, where its collectives are captured with it.
  bool agree(const Segment& segment, bool captured);
  GraphKey graph_key(const Segment& segment) const;
  /// Whether it holds collectives of NCCL, and may stand before a step's last.
  bool captures_by_place(const Segment& segment) const;
  bool captures_now() const;
  void update(const Segment& segment);
  void weights_changed();
  static int own_rounds(const Schedule& schedule);
  static int own_turns(const Schedule& schedule);
  /// Calls run(program, round) for each round of the batch-norm group that this rank has no
  /// micro-batch for: the ranks of a group run equally many rounds, and a rank with fewer
  /// micro-batches joins the collectives with 0 samples. It starts its exchange afterwards, since
  /// those rounds still add zeros to the gradients that the exchange reads.
  template <typename Run>
  void join_missing_rounds(const Schedule& schedule, Run run) {
    const BoundProgram& none = programs.training(0);
    for (int round = own_rounds(schedule); round < schedule.rounds; ++round) {
      copy_sample_weight(none);
      run(none, round);
    }
  }

  // replica_exchange.cpp: what parts of a step ask of the exchange.
  void start_bucket(const Segment& segment, int bucket);
  void reuse_gradients(int index);
  void finish_buckets();
  void finish_bucket(int bucket);
  void move_exchange();
  void sum_shard(const Segment& segment);
  void end_shard(const ShardWork& shard, const Schedule& schedule);

  // replica_passes.cpp: other passes.
  void flip_a_gradient();
  void read_metrics(StepResult& result);
  void compute(Program& program, const RunState& state);
  /// `first_sample`: of the micro-batch that has run; -1: none.
  void end_round(std::int64_t first_sample);
  void stop_where_found(const Schedule& schedule, std::int64_t step);
  /// Injects a planned fault in step `step` (from 0), and removes it in other steps.
  void inject_nan(std::int64_t step);

  ModelFunction model_;
  LossFunction loss_;
  RunSamples samples_;
  std::unique_ptr<Communicator> group_;  // of batch norm; null: groups are local
  bool on_host_;                         // the device is the CPU
  Upload upload_;
  Checks checks_;
  Probes probes_;
  StepTimes times_;  // exposed_communication: of the update; the exchange knows its own
  LapTimer timer_;   // of load(), parts of a step and what comes between them
  /// What a segment's plan depends on that may change after construction.
  struct PlanInputs {
    const Program* program;  // of those that live as long as the replica
    bool watched, overlaps, exchanges, ends_shard, ends_step, by_host;
    bool operator==(const PlanInputs&) const = default;
  };
  std::optional<PlanInputs> planned_;  // what plan_ was made from
  StepPlan plan_;                      // of the current segment, where that is not replayed
  const std::function<void()> between_kernels_ = [this] { move_exchange(); };
  StepGraphs graphs_;
  // Of an exchange, by the samples of the step's batch and its round.
  std::map<std::pair<std::int64_t, int>, SentBytes> bytes_sent_;
  std::string why_no_graphs_;  // empty: segments are captured
  // NCCL's collectives with them, on all ranks; else the host begins those between graphs.
  bool captures_collectives_ = false;
  bool weights_are_whole_ = true;  // see gather_weights()
  std::int64_t steps_ = 0,
               observed_steps_ = 0;  // since construction; whose phases or gradients were
};

/// While it lives, a replica computes with the average of its weights. Where it has none, with the
/// weights. With a sharded optimizer its begin and its end are collectives; an exception that ends
/// it leaves the average in place there, since other ranks may have gone.
class AverageScope {
 public:
  explicit AverageScope(ReplicaState& replica) : replica_(replica) { replica.swap_average(); }
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;
  ~AverageScope() {
    if (replica_.parts.owners && std::uncaught_exceptions() > exceptions_) return;
    try {
      replica_.swap_average();
    } catch (const Error&) {  // a device that fails says so in whatever comes next
    }
  }

 private:
  ReplicaState& replica_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace lockstep
