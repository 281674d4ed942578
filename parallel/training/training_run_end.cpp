// SPDX-License-Identifier: Apache-2.0
// The end of a run: what it came to.
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "core/base/parameter_names.h"
#include "core/host/process_memory.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/monitor/profile_report.h"
#include "parallel/monitor/time_breakdown.h"
#include "parallel/training/run_loaders.h"
#include "parallel/training/training_run.h"

namespace lockstep {
namespace {

/// Every rank has opened the same source, and skipped the same of it.
void add_skipped_at_opening(const data::SkippedRecords& skipped, TrainSummary& summary) {
  if (skipped.count == 0) return;
  summary.skipped_samples += skipped.count;
  summary.first_skipped = skipped.first[0];
}

}  // namespace

void TrainingRun::finish() {
  p_.context.position().enter(RunStage::end);
  TrainSummary& s = summary_;
  const TimeBreakdown breakdown = log_->breakdown();
  const std::optional<double> queued = log_->queued_seconds();
  if (p_.options.profile) stop_profile(p_.context, *inside_.profiler);
  if (p_.options.complete_summary && !s.stopped) p_.options.complete_summary(s);
  s.steps = done_;
  s.samples = feed_.samples_before(done_);
  s.wall_s = breakdown.total + (p_.start ? p_.start->state.wall_s : 0.0);
  s.samples_per_s = double(s.samples - feed_.samples_before(s.resumed_at)) / breakdown.total;
  s.loader_samples_per_s = loader_->samples_per_second() * p_.context.size();
  s.loader_workers = loader_->workers();
  tell_noise_scale();
  s.breakdowns = gather_time_breakdowns(p_.context.host_communicator(), breakdown, queued);
  s.step_error = log_->spread().relative_error();
  count_skipped();
  s.activation_bytes = p_.replica.activation_bytes();
  s.weights_sha256 = p_.replica.weights_sha256();
  if (const auto slowest = straggler_watch_.slowest()) {
    s.slowest_rank = slowest->rank;
    s.slowest_host = slowest->host;
    s.slowest_score = slowest->score;
    s.slowest_phase = slowest->phase;
  }
  add_skipped_at_opening(p_.data.train->skipped_records(), s);
  if (p_.context.rank() == 0) s.advice = advise_run(facts());
  s.ranks = p_.context.size();
  s.global_batch = p_.options.global_batch;
  s.micro_batch = p_.replica.batch().micro_batch;
  s.device = p_.context.backend().device_class();
  s.graph_use = p_.replica.graph_use();
  std::optional<ProfileRecord> profile;
  if (p_.options.profile && !s.stopped)
    profile = make_profile(
        p_.context, *inside_.profiler, std::max<std::int64_t>(1, done_ - s.resumed_at));
  save_at_end();
  const MemoryTable reserved = memory_table();
  for (std::size_t i = 0; i < kMemoryCategories; ++i)
    if (reserved.bytes[i]) s.memory.emplace_back(name_of(MemoryCategory(i)), *reserved.bytes[i]);
  s.memory_planned_bytes = reserved.planned();
  s.planned_bytes = reserved.on_device();
  s.peak_memory_bytes = peak_resident_bytes();
  // Pages of libraries come in as code first runs; what was there before is the rest. A process's
  // memory says nothing of a device's.
  const std::uint64_t own = inside_.programs.baseline_bytes();
  s.memory_baseline_bytes = is_on_host() && own > 0 ? own + resident_memory().files : 0;
  for (TrainObserver* observer : p_.observers)
    s.stopped ? observer->on_stop(s) : observer->on_end(s);
  if (!profile) return;
  for (TrainObserver* observer : p_.observers) observer->on_profile(*profile);
}

/// A sample that several ranks or epochs skipped counts once.
void TrainingRun::count_skipped() {
  std::string own;
  for (const std::int64_t sample : skipped_)
    own.append(reinterpret_cast<const char*>(&sample), sizeof sample);
  for (const auto& [samples, ranks] : gather_distinct_strings(p_.context.host_communicator(), own))
    for (std::size_t i = 0; i < samples.size(); i += sizeof(std::int64_t)) {
      std::int64_t sample = 0;
      std::memcpy(&sample, samples.data() + i, sizeof sample);
      skipped_.insert(sample);
    }
  summary_.skipped_samples = std::ssize(skipped_);
  if (!evaluation_) return;
  summary_.skipped_samples += evaluation_->skipped_samples();
  if (summary_.first_skipped.empty()) summary_.first_skipped = evaluation_->first_skipped();
}

RunFacts TrainingRun::facts() const {
  const TrainSummary& s = summary_;
  const std::vector<RankPlacement>& placements = straggler_watch_.placements();
  const SavedArrays saved = inside_.saved_arrays();
  RunFacts facts{.breakdowns = s.breakdowns,
                 .steps = done_ - s.resumed_at,
                 .log_every = p_.options.log_every,
                 .step_error = s.step_error.value_or(0),
                 .machines = count_machines(placements),
                 .records = told_,
                 .samples_per_s = s.samples_per_s,
                 .loader_samples_per_s = s.loader_samples_per_s,
                 .loader_workers = s.loader_workers,
                 .free_cpus = free_cpus(placements),
                 .host_cpus = placements.front().host_cpus,
                 .checkpoints = checkpointing_ ? checkpointing_->saves() : 0,
                 .checkpoint_steps = p_.options.checkpoint.every_steps,
                 .checkpoint_seconds = p_.options.checkpoint.every_seconds,
                 .oversubscribed = oversubscribed_ranks(placements),
                 .slowest_rank = s.slowest_rank,
                 .slowest_host = s.slowest_host,
                 .slowest_phase = s.slowest_phase,
                 .slowest_score = s.slowest_score,
                 .buckets = std::int64_t(saved.space.buckets.size()),
                 .moving_seconds = inside_.times().moving_exchanges,
                 .on_gpu = !is_on_host()};
  // Steps that are replayed have fewer gaps than those that were measured.
  const bool replays = s.graph_use && s.graph_use->replays > 0;
  if (s.device_steps > 0 && !replays) facts.device_idle = s.device_times.share(DevicePart::idle);
  for (const Bucket& bucket : saved.space.buckets)
    facts.gradient_bytes += bucket.elems * std::int64_t(sizeof(float));
  return facts;
}

bool TrainingRun::is_on_host() const {
  return p_.context.backend().is_host_memory(inside_.saved_arrays().arrays.front().values);
}

void TrainingRun::tell_noise_scale() {
  const NoiseScale& scale = noise_watch_.scale();
  summary_.noise_scale = scale.samples();
  if (scale.samples())
    summary_.format_noise_scale = format_noise_scale(
        *scale.samples(),
        p_.options.global_batch,
        scaled_lr(
            p_.options.lr_scaling, p_.options.global_batch, learning_rate(p_.options.optimizer)),
        is_adaptive(p_.options.optimizer) ? std::sqrt(2.0) : 2.0);
  else if (p_.options.noise_scale_every == 0)
    summary_.format_noise_scale = name_parameters("not measured: `noise_scale_every` 0");
  else if (p_.replica.batch().shards < 2)
    summary_.format_noise_scale =
        name_parameters("not known: a step has one shard; a smaller `micro_batch` gives more");
  else if (scale.measurements() < NoiseScale::kMin)
    summary_.format_noise_scale =
        fmt::format("not known: {} measurements, fewer than {}; they come every {} steps",
                    scale.measurements(),
                    NoiseScale::kMin,
                    p_.options.noise_scale_every);
  else if (scale.variance() <= 0)
    summary_.format_noise_scale = "0: the gradients of all shards are equal";
  else
    summary_.format_noise_scale =
        "not known: the gradient is lost in its noise: the noise scale is far above the global "
        "batch";
}

MemoryTable TrainingRun::memory_table() const {
  MemoryTable table = inside_.memory();
  table[MemoryCategory::loader] =
      loader_->memory_bytes() + requests_.memory_bytes() + summary_.evaluation_loader_bytes;
  table[MemoryCategory::image_decoding] = decoding_bytes(p_.data, p_.options, p_.replica.batch());
  table[MemoryCategory::snapshot] = checkpointing_ ? checkpointing_->memory_bytes() : 0;
  return table;
}

/// After the last collective of training. Ranks wait for each other's files here.
void TrainingRun::save_at_end() {
  if (!checkpointing_) return;
  TrainSummary& s = summary_;
  p_.context.position().enter(RunStage::saving);
  s.saved = s.stopped ? checkpointing_->save_now(done_, state_)
                      : checkpointing_->save_last(done_, state_);
  s.checkpoints = checkpointing_->saves();
  s.snapshots = checkpointing_->snapshots();
  s.checkpoint_stall_ms = checkpointing_->longest_stall_ms();
  s.checkpoint_stall_share = checkpointing_->stall_seconds() / log_->process_seconds();
  p_.context.position().enter(RunStage::end);
}

}  // namespace lockstep
