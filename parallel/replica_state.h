// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "parallel/device_timer.h"
#include "parallel/lap_timer.h"
#include "parallel/nonfinite_search.h"
#include "parallel/recorded_work.h"
#include "parallel/replica.h"
#include "parallel/replica_parts.h"

namespace lockstep {

/// The inside of a Replica; listens to its own backward pass to start exchanges.
class Replica::State final : public BucketListener, public ReplicaPrograms, public ReplicaParts {
 public:
  State(RankContext& context,
        const ModelFunction& model,
        const LossFunction& loss,
        const data::SampleSpec& samples,
        const TrainOptions& options,
        std::vector<std::int64_t> tail_sizes);

  void lend_memory(data::LoaderOptions& loading) const;
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
  std::optional<RecordedSteps> recorded_steps() const;

  StepTimes times;
  DeviceTimer device_timer;
  std::uint64_t collectives_bytes = 0;  ///< of the device, see try_collectives()
  std::unique_ptr<Profiler> profiler;   ///< null: nobody asked

 private:
  /// What a step asks of the device between the loading of one micro-batch and the next.
  struct Piece {
    const Schedule* schedule = nullptr;
    std::int64_t step = 0;
    float lr = 0;
    const BoundProgram* program = nullptr;  ///< null: no micro-batch, the exchange alone
    const ShardWork* shard = nullptr;
    bool ends_shard = false;  ///< the shard's sum is added to those before; not for the last one
    bool ends_step = false;   ///< exchange and update follow
    RunState state = {};
  };

  void initialise_parameters();
  void load_initial_weights();
  void load(const BoundProgram& program, data::Loader& loader, std::uint64_t first_sample);
  void note_waiting(std::optional<CollectiveScope>& scope);
  std::size_t next_slot();
  void send_counters();
  /// Whether the collectives of batch norm and of an exchange beside it come in one order on all
  /// ranks.
  bool order_is_equal(const Schedule& schedule) const;
  void begin_step(const Schedule& schedule, std::int64_t step, float lr);
  /// As recorded work where it can be, otherwise by ask_for().
  void do_piece(const Piece& piece);
  void ask_for(const Piece& piece);
  void replay(const Piece& piece, const RecordedWork& work);
  /// Whether all ranks have recorded it, where its collectives are recorded with it.
  bool agree(const Piece& piece, bool recorded);
  /// Collective.
  bool all_ranks_say(bool yes);
  PieceKey key_of(const Piece& piece) const;
  std::string reason_not_to_record() const;
  bool records_now() const;
  /// What only the host can do, which is not the exchange where that stands in stream order.
  template <typename Work>
  void exchange_by_host(Work work) {
    if (recorder_ == nullptr || exchange.in_stream_order())
      work();
    else
      recorder_->on_host(work);
  }
  void set_sample_weight(const Schedule& schedule);
  void copy_sample_weight(const BoundProgram& program);
  void check_labels(const data::LoadedBatch& loaded) const;
  /// Returns its seconds.
  double run(Program& program, const RunState& state, bool exchange_after);
  void start_bucket(int bucket);
  void start_exchange(int bucket);
  void start_all_buckets();
  void finish_shard(const Piece& piece);
  void end_shard(const ShardWork& shard, const Schedule& schedule);
  void declare_profile();
  void declare_ranges();
  void finish_bucket(int bucket);
  void join_missing_rounds(const Schedule& schedule, RunState& state);
  void update(const Piece& piece);
  void read_metrics(StepResult& result);
  /// `first_sample`: of the micro-batch that has run; -1: none.
  void end_round(std::int64_t first_sample);
  void stop_where_found(const Schedule& schedule, std::int64_t step);
  /// A planned fault, in step number `step` alone.
  void play_nan(std::int64_t step);

  data::SampleSpec samples_;
  std::unique_ptr<Communicator> group_;
  bool on_host_;  // the device is the processor itself
  /// Behind the copies of the last micro-batches, in turn. Those before have been made.
  std::array<std::unique_ptr<DeviceEvent>, kHeldMicroBatches> copied_;
  std::size_t next_copied_ = 0;
  NonFiniteSearch search_;
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
  RecordedPieces pieces_;
  WorkRecorder* recorder_ = nullptr;              // while one records
  std::map<std::int64_t, SentBytes> bytes_sent_;  // of a step, by the samples of its batch
  std::string why_not_recorded_;                  // empty: pieces are
  std::int64_t replayed_ = 0;
  double exchanging_ = 0;  // seconds of moving exchanges along, among those of backward
};

}  // namespace lockstep
