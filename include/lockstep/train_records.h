// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/data/load_request.h"
#include "lockstep/device_use.h"
#include "lockstep/gpu_use.h"
#include "lockstep/time_breakdown.h"
#include "lockstep/weights.h"

/// What a Trainer tells its observers of a run.
namespace lockstep {

/// One logged step. Times are rank 0's means over the steps since the record before. Collectives
/// inside a batch norm over several ranks count as forward and backward.
struct StepRecord {
  std::int64_t step = 0;   ///< steps done, from 1
  std::int64_t steps = 0;  ///< of the whole run
  double epoch = 0;        ///< epochs done
  std::int64_t samples = 0;
  /// Mean over the labels of all steps since the last record.
  double loss = 0;
  double accuracy = 0;   ///< share of correct answers in them; negative for a regression
  double step_loss = 0;  ///< mean over the global batch of this step
  double lr = 0;
  double grad_norm = 0;  ///< negative where it was not computed
  double samples_per_s = 0;
  TimeBreakdown step_ms;  ///< milliseconds a step, and where they went
  /// Milliseconds of this step alone by the device's clock; nothing where it was not measured.
  std::optional<DeviceTimes> device_ms = {};
  /// The gradient noise scale (McCandlish et al. 2018), in samples; nothing where it is not known.
  std::optional<double> noise_scale = {};
  /// What the loaders of all ranks could deliver, by rank 0's measure.
  double loader_samples_per_s = 0;
  /// How rank 0's GPU was used lately; nothing: it has none, or that is unknown.
  std::optional<GpuSample> gpu = {};
};

/// One validation.
struct EvaluationRecord {
  std::int64_t step = 0;
  double epoch = 0;
  double val_loss = 0;
  double val_accuracy = 0;  ///< negative for a regression
  /// The same of the average of the weights; nothing without TrainOptions::ema.
  std::optional<double> ema_val_loss = {}, ema_val_accuracy = {};
  double seconds = 0;
  std::int64_t samples = 0;          ///< that it is of, without those that were skipped
  std::int64_t skipped_samples = 0;  ///< that could not be read
  std::string first_skipped;         ///< what was wrong with the first of them
};

/// A checkpoint that became whole, or did not.
struct CheckpointRecord {
  std::int64_t step = 0;  ///< steps done
  std::string path;
  /// A snapshot in memory (CheckpointOptions::snapshot_folder), of which only the first that fails
  /// is reported, with `error`: the run continues without them.
  bool in_memory = false;
  double seconds = 0;  ///< of writing, concurrently with training, until all ranks' parts are there
  double stall_ms = 0;  ///< that training stalled for the snapshot, on rank 0
  std::string error;    ///< empty: it is whole
  std::string hint;
  std::vector<std::string> not_removed;  ///< old ones that could not be removed, and why
};

/// A rank that has been slower than the others for a while. Times are for one micro-batch.
struct SlowRankRecord {
  int rank = -1;
  std::string host;
  double score = 0;   ///< its own time over the median of all ranks (of two: over the other's)
  std::string phase;  ///< where it loses more: "loading" or "forward and backward"
  double ms = 0, median_ms = 0;  ///< in that phase
};

/// How a run begins that resumes from a checkpoint.
struct ResumeRecord {
  std::int64_t step = 0;   ///< steps done
  bool evaluated = false;  ///< the validation due after that step is done as well
  std::string path;
  bool in_memory = false;  ///< it is a snapshot: CheckpointOptions::snapshot_folder
  std::vector<std::string> skipped_checkpoints;  ///< newer ones that are damaged: name and reason
  std::vector<std::string> overridden;  ///< settings that differ, allowed by resume_override
};

/// A step that was skipped, since its loss or gradients were not finite (OnNonfinite::skip).
struct SkipRecord {
  std::int64_t step = 0;  ///< from 1
  std::string cause;      ///< "the loss is nan: first found on rank 1 ..."
  double epoch = 0;       ///< epochs done with it
};

/// The run has gone back to a checkpoint, since its loss jumped (OnSpike::rollback).
struct RollbackRecord {
  std::int64_t step = 0;           ///< steps done now
  std::int64_t spike_step = 0;     ///< from 1
  double loss = 0;                 ///< of that step
  double mean = 0, spread = 0;     ///< running mean and standard deviation of the losses before it
  std::string path;                ///< of the checkpoint
  io::BatchRange skipped_batches;  ///< batches that no step will use
};

/// The bottleneck of a run, as far as it can be inferred from where its time went.
enum class AdviceCause : std::uint8_t {
  data_wait,           ///< samples came too slowly, on every rank
  slow_rank,           ///< one rank is slower than the others, which wait for it
  cpu_oversubscribed,  ///< ranks share processors, with each other or with other processes
  small_buckets,       ///< the gradients travel in many small messages
  too_small,           ///< a step's work is small compared with what it costs to take part in one
  communication,       ///< gradients travel slower than they are computed
  logging,             ///< metrics are reported too often
  slow_storage,        ///< what is reported takes long to be written
  checkpoint,          ///< training stalls for snapshots
  launches             ///< the processor hands work over more slowly than the GPU does it
};
/// "data_wait", ...
std::string_view name_of(AdviceCause cause);

/// One thing that would make a run faster: TrainSummary::advice.
struct Advice {
  AdviceCause cause = AdviceCause::data_wait;
  std::string text;      ///< "training waited 41% of the time for data"
  std::string evidence;  ///< the numbers that it is seen in
  std::string remedy;    ///< what to change
  double gain = 0;       ///< the share of training time that could be saved at most
};

/// What a run was: the result of Trainer::fit().
struct TrainSummary {
  std::int64_t steps = 0, samples = 0;
  double train_loss = 0;
  double val_loss = 0, val_accuracy = 0;
  bool evaluated = false;
  /// Of the last validation, where tokens are known as text: its loss in bits a byte of UTF-8.
  std::optional<double> val_bits_per_byte = {};
  double samples_per_s = 0;                ///< over training time
  double wall_s = 0;                       ///< training steps alone, without evaluation and start
  std::optional<double> noise_scale = {};  ///< at the end; see StepRecord
  std::string format_noise_scale;          ///< or why there is none
  /// What would help most; of rank 0.
  std::vector<Advice> advice;
  /// Relative standard error of rank 0's mean step time; nothing: too few steps.
  std::optional<double> step_error = {};
  /// Training time of this process, by rank; of rank 0.
  std::vector<RankTimeBreakdown> breakdowns;
  /// Seconds by the clock of rank 0's device, of the logged steps that it measured, and how many.
  DeviceTimes device_times;
  std::int64_t device_steps = 0;
  double loader_samples_per_s = 0;
  int loader_workers = 0;  ///< of each rank; 0: the training thread loads
  /// Bad samples that others took the place of in training, and those that validations skipped:
  /// each once, however many epochs, validations and ranks met it. Of this process of the run.
  std::int64_t skipped_samples = 0;
  std::string first_skipped;            ///< what was wrong with the first that rank 0 knows of
  std::int64_t skipped_steps = 0;       ///< see SkipRecord; of the whole run, as are rollbacks
  std::int64_t rollbacks = 0;           ///< see RollbackRecord
  std::uint64_t peak_memory_bytes = 0;  ///< of rank 0's process
  /// Of that, what was not reserved for training: the process before that, and the pages of
  /// program, libraries and mapped files at its end. 0: unknown, or on a device, whose memory is
  /// not its.
  std::uint64_t memory_baseline_bytes = 0;
  std::uint64_t memory_planned_bytes = 0;  ///< reserved in addition to that, by plan
  /// Those, by category: "activations", ...
  std::vector<std::pair<std::string_view, std::uint64_t>> memory;
  std::uint64_t evaluation_loader_bytes = 0;  ///< among those
  std::uint64_t planned_bytes = 0;            ///< what TrainOptions::memory_limit limits
  std::uint64_t activation_bytes = 0;         ///< the arena: activations and workspace
  std::int64_t resumed_at = 0;                ///< steps that an earlier process had done
  bool stopped = false;                       ///< before the end, because a stop was requested
  bool stopped_early = false;                 ///< before the end, by TrainOptions::early_stop
  /// Then, the steps done at the best validation (BestBy); -1: no loss was a number.
  std::int64_t lowest_val_step = -1;
  /// Rank 0, and where the run was stopped every rank: the last checkpoint holds the end, or none
  /// is wanted.
  bool saved = false;
  std::int64_t checkpoints = 0;       ///< that this process has written
  std::int64_t snapshots = 0;         ///< that it has put into memory
  double checkpoint_stall_ms = 0;     ///< the longest that training stalled for one of either
  double checkpoint_stall_share = 0;  ///< of this process's training time, all of them
  std::string weights_sha256;
  /// By its own time a micro-batch over the whole run; -1: not measured.
  int slowest_rank = -1;
  std::string slowest_host;
  double slowest_score = 0;  ///< see SlowRankRecord
  std::string slowest_phase;
  int ranks = 1;
  std::int64_t global_batch = 0, micro_batch = 0;
  std::string device;
  std::optional<GraphUse> graph_use;  ///< rank 0's, of this process
  /// By rank, of this process; empty: no rank has a GPU, or none was watched.
  std::vector<GpuUse> gpus;
};

/// One operator's part in a run: rank 0's sums over all steps, training and evaluation; with
/// ProfileRecord::by_device by the device's own clock.
struct ProfileLine {
  std::string name;  ///< "conv2d"
  double seconds = 0;
  /// Of all lines' seconds; with ProfileRecord::by_device of the time of the run.
  double share = 0;
  double runs_a_step = 0;       ///< 0: it has none, as "idle"
  double flops = 0, bytes = 0;  ///< in all runs
  /// Of the least time that the measured peaks allow in the time taken: max(flops / peak flops,
  /// bytes / peak bytes) / seconds. Above 1 where caches serve what memory could not; 0 where no
  /// work is counted.
  double roofline = 0;
};

/// Where a run's time went, by operator: with TrainOptions::profile.
struct ProfileRecord {
  DevicePeaks peaks;  ///< of rank 0's device
  /// `seconds` are what the device says of itself, with a line "idle" for the time in which nothing
  /// ran at all: they add up to the time of the run, or to more where several streams had work at
  /// once. Otherwise the host's, which waited for each operator.
  bool by_device = false;
  std::int64_t lost = 0;           ///< activities of rank 0's device that are in no line
  std::int64_t dropped = 0;        ///< of rank 0's events, those that `trace` had no room for
  std::vector<ProfileLine> lines;  ///< by operator, the slowest first
  std::vector<ProfileLine> nodes;  ///< by layer and operator: "layer1.0.conv1 conv2d"
  std::string trace;  ///< Chrome's trace format, rows by rank and stream, and stream of the device
  /// Of rank 0: what `lockstep simulate --kernel-times` reads, JSON.
  std::string kernel_times;
};

/// Follows a run's progress, on rank 0, between steps, on the training thread. Derive from it,
/// override what you want to know, and hand it to Trainer::add_observer(). Training waits for it.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// The run begins with weights of a file (TrainOptions::init). Before on_start().
  virtual void on_initial_weights(const io::LoadReport&) {}
  /// After every check, before the first step. `resumed`: the checkpoint the run resumes from;
  /// null: it begins with step 1.
  virtual void on_start(const ResumeRecord* /*resumed*/) {}
  /// The first step of this process is done; before on_step() of it, where that is logged.
  virtual void on_first_step() {}
  virtual void on_step(const StepRecord&) {}
  virtual void on_evaluation(const EvaluationRecord&) {}
  virtual void on_checkpoint(const CheckpointRecord&) {}
  /// At the start, where there are other ranks: rank 0 will write checkpoints alone, and holds
  /// `bytes` for copies that ranks otherwise share.
  virtual void on_single_writer(const std::string& /*why*/, std::uint64_t /*bytes*/) {}
  /// A rank has become slow; reported again only after it had recovered.
  virtual void on_slow_rank(const SlowRankRecord&) {}
  virtual void on_skip(const SkipRecord&) {}
  virtual void on_rollback(const RollbackRecord&) {}
  /// At the end; where the run was stopped early, on_stop() comes instead.
  virtual void on_end(const TrainSummary&) {}
  virtual void on_stop(const TrainSummary&) {}
  virtual void on_profile(const ProfileRecord&) {}
  /// At the start: rank 0's GPU cannot be asked for its own times, so the profile will have the
  /// host's.
  virtual void on_profile_without_device(const std::string& /*why*/, const std::string& /*hint*/) {}
};

}  // namespace lockstep
