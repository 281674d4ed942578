// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/training_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/check.h"
#include "core/host/process_memory.h"
#include "lockstep/lr_schedule.h"
#include "parallel/monitor/profile_report.h"
#include "parallel/training/run_loaders.h"

namespace lockstep {

TrainingRun::TrainingRun(const Parts& parts)
    : p_(parts),
      inside_(ReplicaState::of(p_.replica)),
      feed_(make_feed()),
      requests_(feed_),
      replica_check_(p_.context, inside_.saved_arrays(), p_.options.check_replicas_every),
      straggler_watch_(p_.context, inside_, p_.observers),
      noise_watch_(p_.context, inside_.parts.shard_norms),
      early_stop_(p_.options.early_stop, nullptr) {
  LOCKSTEP_CHECK(p_.options.on_spike == OnSpike::ignore || !p_.options.checkpoint.folder.empty(),
                 ConfigError,
                 "on_spike rollback needs a folder of checkpoints to go back to");
  LOCKSTEP_CHECK(p_.options.early_stop == 0 || p_.data.validation,
                 ConfigError,
                 "`early_stop` {} counts validations, and there is no validation data",
                 p_.options.early_stop);
  LOCKSTEP_CHECK(p_.options.best_by == BestBy::loss || inside_.parts.metrics.correct >= 0,
                 ConfigError,
                 "`best_by` accuracy: the loss of this run has no accuracy");
  make_loader(p_.start ? p_.start->state.step : 0);
  if (p_.data.validation)
    evaluation_.emplace(p_.context, p_.replica, p_.options, p_.data.validation);
  if (p_.options.on_spike == OnSpike::rollback) watch_.emplace();
  make_checkpointing();
  std::vector<MessagePart*> message{&replica_check_, &straggler_watch_};
  if (checkpointing_) message.push_back(&checkpointing_->message());
  agreement_.emplace(p_.context.host_communicator(), p_.options.stop, std::move(message));
  return_free_memory();  // initial weights were made on the heap
}

void TrainingRun::make_checkpointing() {
  Communicator& ranks = p_.context.host_communicator();
  bool saves = !p_.options.checkpoint.folder.empty();
  ranks.broadcast(&saves, sizeof saves, 0);
  if (!saves) return;
  checkpointing_.emplace(ranks,
                         p_.options.checkpoint,
                         inside_.saved_arrays(),
                         p_.start ? p_.start->state : io::CheckpointState{},
                         p_.observers);
  checkpointing_->set_position(p_.context.position());
  checkpointing_->before_meetings([this] { (void)p_.replica.newest_result(); });
  checkpointing_->before_copies([this] { inside_.gather_weights(); });
  checkpointing_->check_copies([this] { p_.replica.require_healthy(); });
  if (watch_) checkpointing_->wait_for_previous_saves();
}

data::LoaderOptions TrainingRun::loader_options() const {
  data::LoaderOptions loading = training_loader(p_.options, p_.replica.batch());
  lend_to_loader(p_.replica, loading);
  return loading;
}

/// That delivers what `feed_` says of the steps from `first_step` on.
void TrainingRun::make_loader(std::int64_t first_step) {
  if (loader_) {
    collect_skipped();
    loader_.reset();  // before its requests change
  }
  requests_.restart(feed_, first_step);
  loader_.emplace(
      p_.data.train, loader_options(), [this](data::LoadRequest& r) { return requests_.next(r); });
}

TrainingFeed TrainingRun::make_feed() const {
  const std::int64_t size = p_.data.train->size(), batch = p_.options.global_batch;
  Schedule full = p_.replica.schedule(batch);
  Schedule last = size % batch == 0 ? full : p_.replica.schedule(size % batch);
  return TrainingFeed(size,
                      batch,
                      p_.steps,
                      p_.options.seed,
                      std::move(full),
                      std::move(last),
                      p_.start ? p_.start->state.skipped_batches : SkippedBatches{},
                      p_.options.repeated_augmentation);
}

TrainSummary TrainingRun::run() {
  take_over_start();
  tell_start();
  replica_check_.check_now(done_);
  p_.context.communicator().barrier();
  if (p_.options.accepted) p_.options.accepted(p_.start != nullptr);
  if (p_.options.profile) start_profile(p_.context, *inside_.profiler, done_, p_.observers);
  log_.emplace(inside_,
               feed_,
               *loader_,
               done_,
               p_.start ? p_.start->state.wall_s : 0.0,
               p_.start ? open_meter(p_.start->state) : LossMeter{});
  // A validation that the run before did not come to.
  if (done_ > 0 && !summary_.evaluated) {
    evaluate();
    if (summary_.evaluated) save_when_due();
  }
  while (spike_ || (done_ < p_.steps && !summary_.stopped && !early_stop_.is_due())) {
    if (spike_) {
      roll_back();
      if (done_ > 0 && !summary_.evaluated) evaluate();  // as at the start
      if (summary_.stopped || early_stop_.is_due()) break;
    }
    train_one_step();
    p_.context.position().enter(RunStage::training);  // the first step is after it
    if (spike_) continue;
    // The end needs no agreement: every rank is there.
    straggler_watch_.after_step();
    summary_.stopped = agreement_->poll(replica_check_.after_step(done_)) && done_ < p_.steps;
    if (replica_check_.hashed(done_)) inside_.device_timer.skip_work();
    evaluate();
    save_when_due();
    log_->step_done();
    if (summary_.stopped) take(p_.replica.finish_steps());
    if (summary_.stopped && spike_) roll_back();
  }
  summary_.stopped_early = early_stop_.is_due() && !summary_.stopped && done_ < p_.steps;
  if (summary_.stopped_early) summary_.lowest_val_step = early_stop_.lowest_step();
  agreement_.reset();               // it ends with a message, which must not wait for the last save
  replica_check_.check_now(done_);  // before that save
  collect_skipped();
  finish();
  return summary_;
}

void TrainingRun::take_over_start() {
  if (!p_.start) return;
  take_over(p_.start->state);
  summary_.resumed_at = done_;
  summary_.rollbacks = p_.start->state.rollbacks;
  const io::CheckpointState& state = p_.start->state;
  if (watch_)
    watch_.emplace(LossStatistics{state.loss_mean, state.loss_variance, state.loss_count});
}

void TrainingRun::take_over(const io::CheckpointState& state) {
  done_ = started_from_ = state.step;
  // That of a run that went back to none is where this one can go back to.
  base_of_start_ = state.rollback_base >= 0 ? state.rollback_base : state.step;
  known_ = done_ - 1;
  last_ = {};
  summary_.skipped_steps = state.skipped_steps;
  skipped_in_row_ = state.skipped_in_row;
  summary_.train_loss = state.train_loss;
  summary_.evaluated = state.evaluated;
  summary_.val_loss = state.val_loss;
  summary_.val_accuracy = state.val_accuracy;
  early_stop_ = EarlyStop(p_.options.early_stop, &state);
}

void TrainingRun::tell_start() {
  if (p_.start && p_.context.rank() == 0)
    set_damaged_aside(p_.options.checkpoint, p_.start->record);
  if (const std::optional<io::LoadReport>& report = p_.replica.initial_weights())
    for (TrainObserver* observer : p_.observers) observer->on_initial_weights(*report);
  for (TrainObserver* observer : p_.observers)
    observer->on_start(p_.start ? &p_.start->record : nullptr);
  if (!checkpointing_) return;
  if (!checkpointing_->why_no_snapshots().empty()) {
    CheckpointRecord none;
    none.step = done_;
    none.in_memory = true;
    none.error = checkpointing_->why_no_snapshots();
    for (TrainObserver* observer : p_.observers) observer->on_checkpoint(none);
  }
  if (checkpointing_->why_one_writer().empty()) return;
  for (TrainObserver* observer : p_.observers)
    observer->on_single_writer(checkpointing_->why_one_writer(), checkpointing_->memory_bytes());
}

void TrainingRun::train_one_step() {
  const std::int64_t step = done_;
  const bool logs =
      (p_.options.log_every > 0 && (step + 1) % p_.options.log_every == 0) || step + 1 == p_.steps;
  if (logs)
    p_.replica.time_next_step();  // on every rank: no rank replays a step that others ask for
  const float lr = scaled_lr(p_.options.lr_scaling,
                             p_.options.global_batch,
                             lr_at(p_.schedule, learning_rate(p_.options.optimizer), step));
  inside_.programs.use(p_.data.train->spec_of(feed_.epoch(step)));
  take(p_.replica.train_step(feed_.schedule(step), *loader_, step, lr));
  if (logs || noise_watch_.due()) {
    take(p_.replica.finish_steps());
    if (!spike_) noise_watch_.gather();
  }
  if (!std::exchange(told_first_step_, true) && !p_.observers.empty()) {
    (void)p_.replica.newest_result();  // a device may be working on it still
    tell([](TrainObserver& observer) { observer.on_first_step(); });
  }
  ++done_;
  summary_.evaluated = false;
  if (!logs || last_.step != step) return;  // where it is bad, or spikes, that is reported
  StepRecord record = log_->record(step, lr, last_, p_.context.size());
  record.steps = p_.steps;
  record.noise_scale = noise_watch_.scale().samples();
  if (const auto times = p_.replica.device_times(step)) {
    record.device_ms = *times * 1e3;
    summary_.device_times += *times;
    ++summary_.device_steps;
  }
  if (p_.context.rank() == 0 && p_.options.complete_step) p_.options.complete_step(record);
  tell([&](TrainObserver& observer) { observer.on_step(record); });
}

/// Results in the order of steps, which may be a step late: the same ones on all ranks.
void TrainingRun::take(std::span<const StepResult> results) {
  for (const StepResult& result : results) {
    if (spike_) return;  // roll_back() undoes it
    known_ = result.step;
    noise_watch_.take(result);
    if (result.bad) {
      take_bad(result);
      continue;
    }
    skipped_in_row_ = 0;
    if (watch_ && watch_->spikes(result.loss)) {
      spike_ = result;
      continue;
    }
    last_ = result;
    log_->add(result);
    summary_.train_loss = result.loss;
  }
}

bool TrainingRun::evaluates_now() const {
  if (!p_.data.validation || p_.options.eval_every == 0) return false;
  const std::int64_t every =
      p_.options.eval_every > 0 ? p_.options.eval_every : feed_.steps_per_epoch();
  return done_ % every == 0 || done_ == p_.steps;
}

/// Where a validation is due; it may end in the wish to stop.
void TrainingRun::evaluate() {
  if (summary_.stopped || !evaluates_now()) return;
  take(p_.replica.finish_steps());
  if (spike_) return;
  log_->pause();
  auto record = [&] {
    const StageScope stage(&p_.context.position(), RunStage::evaluation);
    auto of_weights = evaluation_->run([this] { return agreement_->poll(); });
    if (!of_weights || !p_.options.ema.on()) return of_weights;
    const AverageScope averaged(inside_);
    const auto of_average = evaluation_->run([this] { return agreement_->poll(); });
    if (!of_average) return of_average;
    of_weights->ema_val_loss = of_average->val_loss;
    of_weights->ema_val_accuracy = of_average->val_accuracy;
    of_weights->seconds += of_average->seconds;
    return of_weights;
  }();
  summary_.evaluation_loader_bytes = evaluation_->loader_bytes();
  log_->resume();
  summary_.stopped = !record.has_value();
  if (!record) return;
  record->step = done_;
  record->epoch = feed_.epochs_after(done_);
  tell([&](TrainObserver& observer) { observer.on_evaluation(*record); });
  summary_.val_loss = record->val_loss;
  summary_.val_accuracy = record->val_accuracy;
  summary_.evaluated = true;
  early_stop_.after_validation(done_, judged());
}

/// What is lower where the last validation is better.
double TrainingRun::judged() const {
  return p_.options.best_by == BestBy::accuracy ? -summary_.val_accuracy : summary_.val_loss;
}

/// Of the training loader, which ends.
void TrainingRun::collect_skipped() {
  if (summary_.first_skipped.empty()) summary_.first_skipped = loader_->first_skipped();
  skipped_.insert(loader_->skipped_samples().begin(), loader_->skipped_samples().end());
}

void TrainingRun::save_when_due() {
  if (summary_.stopped || !checkpointing_) return;
  const StepLog::Stall stall(*log_, TimePart::checkpoint);
  if (checkpointing_->after_step(
          done_, summary_.evaluated ? judged() : io::CheckpointState::kUnknown, state_))
    inside_.device_timer.skip_work();
}

/// Of rank 0, which decides whether there is a save. It must not be one of the weights after a bad
/// step, which are those before it; but that step's result stays with the replica, for all ranks to
/// meet in take().
std::optional<io::CheckpointState> TrainingRun::state() const {
  const StepResult& newest = p_.replica.newest_result();
  io::CheckpointState state;
  if (!add_faults(state, newest)) return std::nullopt;
  state.step = done_;
  state.samples = feed_.samples_before(done_);
  state.wall_s = log_->wall_seconds();
  LossMeter meter = log_->meter();
  if (newest.step > known_ && !newest.bad) meter.add(newest);
  state.open_labels = meter.labels;
  state.open_loss = meter.loss;
  state.open_accuracy = meter.accuracy;
  state.train_loss = newest.step >= 0 && !newest.bad ? newest.loss : summary_.train_loss;
  state.evaluated = summary_.evaluated;
  if (summary_.evaluated) {
    state.val_loss = summary_.val_loss;
    state.val_accuracy = summary_.val_accuracy;
  }
  early_stop_.save(state);
  state.settings = p_.settings;
  return state;
}

}  // namespace lockstep
