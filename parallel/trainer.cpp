// SPDX-License-Identifier: Apache-2.0
#include "parallel/trainer.h"

#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <sys/resource.h>

#include "core/base/error.h"
#include "parallel/checkpointing.h"
#include "parallel/fingerprint.h"
#include "parallel/profile_report.h"
#include "parallel/replica.h"
#include "parallel/resume.h"
#include "parallel/run_settings.h"
#include "parallel/step_log.h"
#include "parallel/stop_agreement.h"
#include "parallel/training_feed.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::uint64_t(usage.ru_maxrss) * 1024;
}

/// Steps of the run from whichever length was given.
std::int64_t total_steps(const TrainOptions& o, std::int64_t dataset_size) {
  const std::int64_t per_epoch = (dataset_size - 1) / o.global_batch + 1;
  if (o.steps > 0) return o.steps;
  if (o.epochs > 0) return std::max<std::int64_t>(1, std::llround(o.epochs * double(per_epoch)));
  const std::int64_t epochs = o.samples / dataset_size, rest = o.samples % dataset_size;
  return epochs * per_epoch + (rest == 0 ? 0 : (rest - 1) / o.global_batch + 1);
}

}  // namespace

class Trainer::State {
 public:
  State(RankContext& context, ModelFunction model, LossFunction loss, const TrainOptions& options)
      : context_(context),
        model_(std::move(model)),
        loss_(std::move(loss)),
        options_(options),
        batch_(plan_batch(options, context.size())) {
    validate(options_);
  }

  void add_observer(TrainObserver& observer) {
    if (context_.rank() == 0) observers_.push_back(&observer);
  }

  TrainSummary fit(const data::DataSplit& data) {
    LOCKSTEP_CHECK(data.train != nullptr && data.train->size() > 0,
                   ConfigError,
                   "data: there is nothing to train on");
    const std::int64_t size = data.train->size();
    LOCKSTEP_CHECK(options_.global_batch <= size,
                   ConfigError,
                   "batch: global-batch {} is larger than the {} training samples",
                   options_.global_batch,
                   size);
    steps_ = total_steps(options_, size);
    schedule_ = options_.lr_schedule;
    if (schedule_.decay_steps == 0) schedule_.decay_steps = steps_ - schedule_.warmup_steps;
    // Before anything collective is built: ranks with other settings would wait in other places.
    agree_on_settings(data);
    start_ = find_resume_point(context_.communicator(), options_.checkpoint);
    if (start_) check_start(size);
    build(data);
    return train(data);
  }

  EvaluationRecord evaluate(const data::DataSplit& data) {
    LOCKSTEP_CHECK(data.validation != nullptr && data.validation->size() > 0,
                   ConfigError,
                   "data: there is nothing to evaluate on");
    agree_on_settings(data);
    build(data);
    TrainSummary summary;
    EvaluationRecord record = *run_evaluation(data, summary, {});
    record.skipped_samples = sum_over_ranks(summary.skipped_samples);
    record.first_skipped = summary.first_skipped;
    LOCKSTEP_CHECK(std::isfinite(record.val_loss),
                   NonFiniteError,
                   "evaluation: the loss is {}",
                   record.val_loss);
    return record;
  }

  Replica& replica() {
    LOCKSTEP_CHECK(replica_.has_value(), ConfigError, "trainer: fit() comes first");
    return *replica_;
  }

 private:
  void agree_on_settings(const data::DataSplit& data) {
    settings_ =
        run_settings(options_, batch_, steps_, schedule_, data, context_.backend().device_class());
    settings_.emplace_back("model",
                           model_hash(model_, loss_, data.train->spec(), options_, batch_));
    compare_fingerprints(context_.communicator(), settings_);
  }

  void check_start(std::int64_t dataset_size) {
    check_settings(*start_, settings_, options_.checkpoint.resume_override);
    const io::CheckpointState& state = start_->state;
    LOCKSTEP_CHECK(state.step <= steps_,
                   ConfigError,
                   "{} has {} steps done, the run is to have {}",
                   start_->record.path,
                   state.step,
                   steps_);
    const std::int64_t samples = samples_before(state.step, dataset_size, options_.global_batch);
    if (samples != state.samples)
      start_->record.overridden.push_back(
          fmt::format("position in the data was {} samples, is {}", state.samples, samples));
  }

  /// Makes the replica, and has the ranks agree that they made the same.
  void build(const data::DataSplit& data) {
    make_replica(data);
    Fingerprint built{{"program", short_hash(replica_->program_text())}};
    if (start_) replica_->restore(start_->record.path);
    if (start_ || !options_.init.empty())
      built.emplace_back("weights at the start",
                         io::weights_sha256(replica_->weights()).substr(0, 16));
    compare_fingerprints(context_.communicator(), built);
  }

  void make_replica(const data::DataSplit& data) {
    const std::int64_t size = data.train->size(), micro = batch_.micro_batch;
    std::vector<std::int64_t> tails{options_.global_batch % micro,
                                    size % options_.global_batch % micro};
    if (data.validation) {
      const std::int64_t n = data.validation->size();
      tails.push_back(n % micro);
    }
    std::erase(tails, 0);
    TrainOptions options = options_;
    if (start_) options.init.clear();  // the checkpoint has the weights
    replica_.emplace(context_, model_, loss_, data.train->spec(), options, tails);
  }

  TrainSummary train(const data::DataSplit& data) {
    const std::int64_t size = data.train->size(), first = start_ ? start_->state.step : 0;
    const std::int64_t tail = size % options_.global_batch;
    Schedule full = replica_->schedule(options_.global_batch);
    Schedule last = tail == 0 ? full : replica_->schedule(tail);
    TrainingFeed feed(size,
                      options_.global_batch,
                      steps_,
                      options_.seed,
                      std::move(full),
                      std::move(last),
                      first);
    TrainingFeed requests = feed;
    data::Loader loader(data.train,
                        {.workers = options_.workers,
                         .slots = 4,
                         .micro_batch = batch_.micro_batch,
                         .seed = options_.seed,
                         .augmentation = options_.augmentation,
                         .skip_bad_samples = options_.skip_bad_samples},
                        [&requests](data::LoadRequest& r) { return requests.next(r); });
    std::optional<StopAgreement> agreement;
    agreement.emplace(context_.communicator(), options_.stop);
    std::optional<Checkpointing> checkpointing;
    if (!options_.checkpoint.folder.empty() && context_.rank() == 0)
      checkpointing.emplace(options_.checkpoint,
                            replica_->saved_arrays(),
                            start_ ? start_->state : io::CheckpointState{},
                            observers_);
    tell_start();
    context_.communicator().barrier();
    if (options_.profile) replica_->profiler()->start();
    log_.emplace(*replica_, feed, loader, first, start_ ? start_->state.wall_s : 0.0);
    TrainSummary summary = summary_at_start();
    std::int64_t done = first;
    const Checkpointing::StateFunction state = [&] { return state_after(done, feed, summary); };
    const auto save_when_due = [&] {
      if (checkpointing && !summary.stopped)
        checkpointing->after_step(
            done, summary.evaluated ? summary.val_loss : io::CheckpointState::kUnknown, state);
    };
    if (first > 0 && !summary.evaluated && data.validation && evaluates_after(feed, first - 1))
      if (!(summary.stopped = !evaluate_after(feed, data, first - 1, summary, *agreement)))
        save_when_due();
    while (done < steps_ && !summary.stopped) {
      train_one_step(feed, loader, done, summary);
      ++done;
      summary.evaluated = false;
      // The end needs no agreement: every rank is there.
      if ((summary.stopped = agreement->poll() && done < steps_)) break;
      if (data.validation && evaluates_after(feed, done - 1))
        summary.stopped = !evaluate_after(feed, data, done - 1, summary, *agreement);
      save_when_due();
    }
    agreement.reset();  // it ends with a message, which must not wait for the last save
    count_skipped(loader, summary);
    finish(feed, loader, done, checkpointing, summary);
    return summary;
  }

  void tell_start() {
    if (start_ && context_.rank() == 0) set_damaged_aside(options_.checkpoint, start_->record);
    for (TrainObserver* observer : observers_)
      observer->on_start(start_ ? &start_->record : nullptr);
  }

  TrainSummary summary_at_start() const {
    TrainSummary summary;
    if (!start_) return summary;
    const io::CheckpointState& state = start_->state;
    summary.resumed_at = state.step;
    summary.train_loss = state.train_loss;
    summary.evaluated = state.evaluated;
    summary.val_loss = state.val_loss;
    summary.val_accuracy = state.val_accuracy;
    return summary;
  }

  io::CheckpointState state_after(std::int64_t done,
                                  const TrainingFeed& feed,
                                  const TrainSummary& summary) const {
    io::CheckpointState state;
    state.step = done;
    state.samples = feed.samples_before(done);
    state.wall_s = log_->wall_seconds();
    state.train_loss = summary.train_loss;
    state.evaluated = summary.evaluated;
    if (summary.evaluated) {
      state.val_loss = summary.val_loss;
      state.val_accuracy = summary.val_accuracy;
    }
    state.settings = settings_;
    return state;
  }

  void train_one_step(const TrainingFeed& feed,
                      data::Loader& loader,
                      std::int64_t step,
                      TrainSummary& summary) {
    const bool logs =
        (options_.log_every > 0 && (step + 1) % options_.log_every == 0) || step + 1 == steps_;
    const float lr = lr_at(schedule_, learning_rate(options_.optimizer), step);
    const StepResult result = replica_->train_step(feed.schedule(step), loader, step, lr, logs);
    summary.train_loss = result.loss;
    if (!logs) return;
    StepRecord record = log_->record(step, lr, result, context_.size());
    record.steps = steps_;
    for (TrainObserver* observer : observers_) observer->on_step(record);
  }

  bool evaluates_after(const TrainingFeed& feed, std::int64_t step) const {
    if (options_.eval_every == 0) return false;
    const std::int64_t every =
        options_.eval_every > 0 ? options_.eval_every : feed.steps_per_epoch();
    return (step + 1) % every == 0 || step + 1 == steps_;
  }

  /// Adds the samples that could not be read to `summary`. Nothing where `interrupted` ended it.
  std::optional<EvaluationRecord> run_evaluation(const data::DataSplit& data,
                                                 TrainSummary& summary,
                                                 const std::function<bool()>& interrupted) {
    const auto begin = Clock::now();
    const Schedule schedule = replica_->evaluation_schedule(data.validation->size());
    EvaluationFeed requests(schedule);
    data::LoaderOptions loading;
    loading.workers = options_.workers;
    loading.micro_batch = batch_.micro_batch;
    loading.skip_bad_samples = options_.skip_bad_samples;
    data::Loader loader(
        data.validation, loading, [&requests](data::LoadRequest& r) { return requests.next(r); });
    const auto result = replica_->evaluate(schedule, loader, interrupted);
    count_skipped(loader, summary);
    if (!result) return std::nullopt;
    EvaluationRecord record;
    record.val_loss = result->loss;
    record.val_accuracy = result->accuracy;
    record.seconds = seconds_since(begin);
    return record;
  }

  /// False where the run is to stop instead.
  bool evaluate_after(const TrainingFeed& feed,
                      const data::DataSplit& data,
                      std::int64_t step,
                      TrainSummary& summary,
                      StopAgreement& agreement) {
    log_->pause();
    auto record = run_evaluation(data, summary, [&] { return agreement.poll(); });
    log_->go_on();
    if (!record) return false;
    record->step = step + 1;
    record->epoch = double(step + 1) / double(feed.steps_per_epoch());
    for (TrainObserver* observer : observers_) observer->on_evaluation(*record);
    summary.val_loss = record->val_loss;
    summary.val_accuracy = record->val_accuracy;
    summary.evaluated = true;
    return true;
  }

  static void count_skipped(const data::Loader& loader, TrainSummary& summary) {
    if (summary.skipped_samples == 0) summary.first_skipped = loader.first_skipped();
    summary.skipped_samples += loader.skipped_samples();
  }

  std::int64_t sum_over_ranks(std::int64_t own) {
    std::vector<std::int64_t> all(std::size_t(context_.size()));
    context_.communicator().all_gather(&own, all.data(), sizeof own);
    return std::accumulate(all.begin(), all.end(), std::int64_t{0});
  }

  void finish(const TrainingFeed& feed,
              const data::Loader& loader,
              std::int64_t done,
              std::optional<Checkpointing>& checkpointing,
              TrainSummary& summary) {
    const double seconds = log_->process_seconds();
    summary.steps = done;
    summary.samples = feed.samples_before(done);
    summary.wall_s = seconds + (start_ ? start_->state.wall_s : 0.0);
    summary.samples_per_s =
        double(summary.samples - feed.samples_before(summary.resumed_at)) / seconds;
    summary.comm_exposed_share = replica_->times().exposed_communication / seconds;
    summary.data_wait_share = loader.waited_seconds() / seconds;
    summary.loader_samples_per_s = loader.samples_per_second() * context_.size();
    summary.loader_workers = loader.workers();
    summary.skipped_samples = sum_over_ranks(summary.skipped_samples);
    summary.peak_memory_bytes = peak_resident_bytes();
    summary.planned_bytes = replica_->planned_bytes();
    summary.activation_bytes = replica_->activation_bytes();
    summary.weights_sha256 = io::weights_sha256(replica_->weights());
    summary.ranks = context_.size();
    summary.device = context_.backend().device_class();
    std::optional<ProfileRecord> profile;
    if (options_.profile && !summary.stopped)
      profile = make_profile(
          context_, *replica_->profiler(), std::max<std::int64_t>(1, done - summary.resumed_at));
    // Behind the last collective: no rank is to wait for the file system inside one.
    save_at_end(feed, done, checkpointing, summary);
    // A stopped run ends with one exit code: only now is it known.
    if (summary.stopped) context_.communicator().broadcast(&summary.saved, sizeof summary.saved, 0);
    for (TrainObserver* observer : observers_)
      summary.stopped ? observer->on_stop(summary) : observer->on_end(summary);
    if (!profile) return;
    for (TrainObserver* observer : observers_) observer->on_profile(*profile);
  }

  void save_at_end(const TrainingFeed& feed,
                   std::int64_t done,
                   std::optional<Checkpointing>& checkpointing,
                   TrainSummary& summary) {
    if (!checkpointing) return;
    const auto state = [&] { return state_after(done, feed, summary); };
    summary.saved = summary.stopped ? checkpointing->save_now(done, state)
                                    : checkpointing->save_last(done, state);
    summary.checkpoints = checkpointing->saves();
    summary.checkpoint_stall_ms = checkpointing->longest_stall_ms();
    summary.checkpoint_stall_share = checkpointing->stall_seconds() / log_->process_seconds();
  }

  RankContext& context_;
  ModelFunction model_;
  LossFunction loss_;
  TrainOptions options_;
  BatchPlan batch_;
  std::vector<TrainObserver*> observers_;
  std::optional<Replica> replica_;
  LrSchedule schedule_;
  std::int64_t steps_ = 0;
  Fingerprint settings_;
  std::optional<ResumePoint> start_;
  std::optional<StepLog> log_;
};

Trainer::Trainer(RankContext& context,
                 ModelFunction model,
                 LossFunction loss,
                 const TrainOptions& options)
    : state_(std::make_unique<State>(context, std::move(model), std::move(loss), options)) {}

Trainer::~Trainer() = default;

void Trainer::add_observer(TrainObserver& observer) { state_->add_observer(observer); }

EvaluationRecord Trainer::evaluate(const data::DataSplit& data) { return state_->evaluate(data); }

TrainSummary Trainer::fit(const data::DataSplit& data) { return state_->fit(data); }

std::vector<io::NamedTensor> Trainer::weights() { return state_->replica().weights(); }

void Trainer::save_weights(const std::string& file) {
  io::save_weights(file, state_->replica().weights());
}

}  // namespace lockstep
