// SPDX-License-Identifier: Apache-2.0
// What a run does where a step is not finite, or its loss jumps.
#include <cmath>
#include <fmt/format.h>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"
#include "parallel/batch/training_feed.h"
#include "parallel/training/training_run.h"

namespace lockstep {
namespace {

/// Without the sign that NaN may have.
std::string number(double value) {
  return std::isnan(value) ? std::string("nan") : fmt::format("{}", value);
}

/// "the loss of step 7 is nan"
std::string what_is_bad(const StepResult& result) {
  const bool loss = !std::isfinite(result.loss);
  return fmt::format("the {} of step {} is {}",
                     loss ? "loss" : "gradient norm",
                     result.step + 1,
                     number(loss ? result.loss : result.grad_norm));
}

}  // namespace

/// The same on all ranks, as results are.
void TrainingRun::take_bad(const StepResult& result) {
  if (!(result.counted > 0)) require_finite(result);  // no fault of the numbers
  const bool stops = p_.options.on_nonfinite == OnNonfinite::stop;
  std::string cause = what_is_bad(result);
  std::optional<NonFiniteFinding> first;
  if (stops || replays_++ < kMaxReplays) cause += ": " + replay(result, first);
  constexpr const char* kHint =
      "LOCKSTEP_NAN_CHECK=1 looks at every operator of every step; `on_nonfinite` skip leaves such "
      "steps out; a smaller `lr`, `warmup_steps` or `clip_norm` keep losses finite";
  if (stops) {
    if (first) throw NonFiniteFoundError("training: " + cause, kHint, *first, result.step + 1);
    throw NonFiniteError("training: " + cause, kHint);
  }
  ++summary_.skipped_steps;
  const SkipRecord record{
      .step = result.step + 1, .cause = cause, .epoch = feed_.epochs_after(result.step + 1)};
  tell([&](TrainObserver& observer) { observer.on_skip(record); });
  if (++skipped_in_row_ > kMaxSkippedInARow)
    throw NonFiniteError(
        fmt::format(
            "training: {} steps in a row were not finite, the last: {}", skipped_in_row_, cause),
        "the weights no longer recover: go back to an earlier checkpoint, with a smaller `lr` or "
        "with `clip_norm`");
}

/// Computes the step again from the weights before it (with OnNonfinite::skip, where results come a
/// step late, from those after it), and says where it was first not finite. Takes memory for that
/// which is in no plan: a loader, and an order of samples.
std::string TrainingRun::replay(const StepResult& result, std::optional<NonFiniteFinding>& first) {
  const StageScope stage(&p_.context.position(), RunStage::evaluation);
  log_->pause();
  const Schedule& schedule = feed_.schedule(result.step);
  TrainingRequests requests(feed_, result.step);
  data::Loader loader(
      p_.data.train, loader_options(), [&](data::LoadRequest& r) { return requests.next(r); });
  inside_.programs.use(p_.data.train->spec_of(feed_.epoch(result.step)));
  const auto findings = inside_.find_nonfinite(schedule, loader, result.step);
  log_->resume();
  if (findings.empty())
    return "a replay of the step finds every value finite: a sum over ranks that overflows, or a "
           "fault of memory or hardware on the way";
  first = findings.front();
  return to_text(findings, p_.replica.micro_batches(schedule));
}

/// The checkpoint that a spike after `steps` steps goes back to; 0: none. It depends on steps
/// alone, not on when validations were best or the run was stopped.
std::int64_t TrainingRun::rollback_base(std::int64_t steps) const {
  const std::int64_t scheduled = steps - steps % p_.options.checkpoint.every_steps;
  return scheduled > started_from_ ? scheduled : base_of_start_;
}

ResumePoint TrainingRun::point_to_go_back_to(const StepResult& spike) {
  const std::int64_t base = rollback_base(spike.step);
  const std::string jump = fmt::format("the loss of step {} is {}, far above the mean of {}",
                                       spike.step + 1,
                                       number(spike.loss),
                                       number(watch_->statistics().mean));
  if (base == 0)
    throw NonFiniteError(
        fmt::format("training: {}, and there is no checkpoint yet to go back to", jump),
        "save more often with `checkpoint_every`, or take spikes as they come with `on_spike` "
        "ignore");
  ResumePoint point = [&] {
    Communicator& communicator = p_.context.communicator();
    try {
      // What this process has not saved lies next to the checkpoint that it resumed from, unless
      // that was a snapshot in memory.
      return p_.start && !p_.start->record.in_memory && base <= p_.start->state.step
                 ? checkpoint_next_to(communicator, *p_.start, base)
                 : checkpoint_in(communicator, p_.options.checkpoint, base);
    } catch (const Error& error) {
      throw Error(fmt::format("training: {}, and the checkpoint to go back to cannot be read: {}",
                              jump,
                              as_written(error.what())),
                  "`resume` from an earlier one repeats the steps and saves it again",
                  error.exit_code());
    }
  }();
  check_settings(point, p_.settings, p_.options, *p_.data.train);
  if (base > rolled_back_to_) rollbacks_there_ = 0;
  rolled_back_to_ = base;
  if (++rollbacks_there_ > kMaxRollbacks)
    throw NonFiniteError(
        fmt::format("training: {}: {} rollbacks to step {} have not led to a new checkpoint",
                    jump,
                    kMaxRollbacks,
                    rolled_back_to_),
        "it is not a few batches: use a smaller `lr` or `clip_norm`");
  return point;
}

void TrainingRun::roll_back() {
  const StepResult spike = *spike_;
  // It waits for files, and reads all of one checkpoint.
  const StageScope stage(&p_.context.position(), RunStage::saving);
  (void)p_.replica.finish_steps();  // of steps after it
  if (checkpointing_) checkpointing_->resolve();
  const ResumePoint point = point_to_go_back_to(spike);
  SkippedBatches skipped_batches = feed_.skipped_batches();
  skip_batches(skipped_batches, point.state.step, spike.step);
  inside_.restore(point.record.path);
  take_over(point.state);
  ++summary_.rollbacks;
  feed_.set_skipped_batches(std::move(skipped_batches));
  make_loader(done_);
  log_->restart(done_, open_meter(point.state));
  noise_watch_.forget();
  const RollbackRecord record{.step = done_,
                              .spike_step = spike.step + 1,
                              .loss = spike.loss,
                              .mean = watch_->statistics().mean,
                              .spread = watch_->spread(),
                              .path = point.record.path,
                              .skipped_batches = feed_.skipped_batches().back()};
  tell([&](TrainObserver& observer) { observer.on_rollback(record); });
  watch_.emplace();
  spike_.reset();
}

/// What a checkpoint has to know of faults; `newest` is the last step's, which other ranks may not
/// know yet. False: this is not state to resume from.
bool TrainingRun::add_faults(io::CheckpointState& state, const StepResult& newest) const {
  const bool known = newest.step <= known_, bad = newest.step >= 0 && newest.bad;
  if (spike_ || (bad && p_.options.on_nonfinite == OnNonfinite::stop)) return false;
  state.skipped_steps = summary_.skipped_steps + (!known && bad ? 1 : 0);
  state.skipped_in_row = known ? skipped_in_row_ : bad ? skipped_in_row_ + 1 : 0;
  state.skipped_batches = feed_.skipped_batches();
  state.rollbacks = summary_.rollbacks;
  if (!watch_) return true;
  state.rollback_base = rollback_base(done_);
  SpikeWatch watch = *watch_;
  if (!known && !bad && watch.spikes(newest.loss)) return false;
  state.loss_mean = watch.statistics().mean;
  state.loss_variance = watch.statistics().variance;
  state.loss_count = watch.statistics().count;
  return true;
}

}  // namespace lockstep
