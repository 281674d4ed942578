// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/checkpointing.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "core/base/parameter_names.h"
#include "core/base/rank_list.h"
#include "core/step/saved/saved_arrays.h"
#include "core/step/stage_scope.h"

namespace lockstep {
namespace {

constexpr double kUnknown = io::CheckpointState::kUnknown;
/// How long another rank looks for the files of a save before it asks rank 0 what became of it, and
/// for the end of its own thread where that has nothing more to write.
constexpr double kPatience = 5;  // seconds
/// Between two times that ranks which wait for a save tell each other how it stands.
constexpr double kRound = 0.2;  // seconds

CheckpointOptions agreed(SaveAgreement& ranks, CheckpointOptions options) {
  options.every_steps = ranks.from_first(options.every_steps);
  options.every_seconds = ranks.from_first(options.every_seconds);
  return options;
}

}  // namespace

Checkpointing::Checkpointing(Communicator& ranks,
                             const CheckpointOptions& options,
                             const SavedArrays& saved,
                             const io::CheckpointState& resumed,
                             std::vector<TrainObserver*> observers)
    : agreement_(ranks, options.folder),
      parts_(agreement_.parts(saved)),
      memory_bytes_(kSnapshots * copied_bytes(saved, parts_[std::size_t(ranks.rank())])),
      snapshots_{Snapshot(saved, parts_, ranks.rank()), Snapshot(saved, parts_, ranks.rank())},
      observers_(std::move(observers)),
      memory_(ranks, agreement_, options, saved),
      writer_(options.folder, options.keep),
      best_val_loss_(resumed.best_val_loss),
      best_step_(resumed.best_step) {
  options_ = agreed(agreement_, options);
  timer_ = SaveTimer(options_.every_steps, options_.every_seconds, Clock::now());
  agreement_.on_failure(
      [this](int rank, const SaveFailure& failure) { note_failure(rank, failure); });
}

Checkpointing::~Checkpointing() = default;

std::size_t Checkpointing::memory_bytes(const SavedArrays& saved, int ranks, int rank) {
  return kSnapshots * copied_bytes(saved, snapshot_parts(saved, ranks)[std::size_t(rank)]);
}

/// Rank 0 learns of it.
void Checkpointing::note_failure(int rank, const SaveFailure& failure) {
  const std::string reason = fmt::format("rank {}: {}", rank, failure.error);
  if (writing_ && failure.save == written_) writer_.end_waiting(reason, failure.hint);
  if (is_host_snapshot(failure.in_memory)) {  // that of rank 0's own host may be whole
    if (memory_.given_up()) return;
    memory_.give_up();
    CheckpointRecord record;
    record.step = failure.step;
    record.in_memory = true;
    record.error = reason;
    record.hint = failure.hint;
    tell(record);
  } else if (failure.save > written_) {
    failures_.try_emplace(failure.save, reason, failure.hint);
  }
}

bool Checkpointing::is_best(double val_loss) const {
  double lowest = std::fmin(best_val_loss_, written_val_loss_);  // ignores what is unknown
  if (waiting_) lowest = std::fmin(lowest, waiting_->content.state.best_val_loss);
  return !std::isnan(val_loss) && !(val_loss >= lowest);
}

bool Checkpointing::after_step(std::int64_t step, double val_loss, const StateFunction& state) {
  if (!timer_.periodic() && !memory_.any()) return false;
  if (writing_) tell_results();
  const Wish wish = leads() ? wish_after(step, val_loss) : Wish();
  const bool asked = agreement_.take_asked();
  const bool meets =
      agreement_.alone() ? wish.any() : asked || timer_.scheduled(step) || !std::isnan(val_loss);
  agreement_.ask(wish.any() && !meets && (!writing_ || takes_second_copy()));
  return meets && meet(step, wish, state);
}

Checkpointing::Wish Checkpointing::wish_after(std::int64_t step, double val_loss) {
  if (timer_.periodic()) {
    const bool best = is_best(val_loss);
    if (timer_.due(step, Clock::now()) || best)
      return {Wish::What::checkpoint, best ? val_loss : kUnknown};
  }
  // A rollback goes back to a checkpoint of the run's own, which a run that resumes from a snapshot
  // must have.
  const bool may = !writing_ && (saves_ > 0 || !waits_for_previous_saves_);
  const bool snapshot = may && memory_.is_due();
  return {.what = snapshot ? Wish::What::snapshot : Wish::What::nothing};
}

bool Checkpointing::save_now(std::int64_t step, const StateFunction& state) {
  wait_together();
  const bool wanted = whole_step_ != step;
  if (meet(step, {.what = wanted ? Wish::What::checkpoint : Wish::What::nothing}, state))
    wait_together();
  return agreement_.from_first(whole_step_ == step);
}

bool Checkpointing::save_last(std::int64_t step, const StateFunction& state) {
  return !timer_.periodic() || save_now(step, state);
}

void Checkpointing::resolve() {
  wait_together();
  timer_.forget();
  whole_step_ = -1;
  if (!memory_.any()) return;
  // They are of steps that the run takes back.
  if (const std::string error = memory_.remove(); !error.empty()) throw EnvironmentError(error);
}

/// What is being written is a snapshot in memory, for which a checkpoint does not wait.
bool Checkpointing::takes_second_copy() const { return writing_ && writes_memory_ && !waiting_; }

bool Checkpointing::writes_host_snapshot() const {
  return (writing_ && is_host_snapshot(writes_memory_)) ||
         (waiting_ && is_host_snapshot(waiting_->in_memory));
}

Checkpointing::Offer Checkpointing::standing() const {
  // Those between were replaced before they had begun.
  return {.started = written_,
          .over = writing_ ? written_ - 1 : number_,
          .waiting = waiting_ ? waiting_->number : 0,
          .memory_given_up = memory_.given_up()};
}

bool Checkpointing::meet(std::int64_t step, const Wish& wish, const StateFunction& state) {
  const StageScope stage(position_, RunStage::saving);
  if (settle_ && !agreement_.alone()) settle_();
  for (;;) {
    const auto begin = Clock::now();
    std::optional<io::CheckpointState> now;
    Offer offer = standing();
    if (leads() && wish.any()) {
      const bool best = !std::isnan(wish.best_val_loss);
      const bool may_take = !writing_ || takes_second_copy() || best;
      const bool both_are_due = best && waiting_ && !waiting_->is_best;
      if (writing_ && !takes_second_copy() && (waits_for_previous_saves_ || both_are_due))
        offer.what = Offer::What::wait;
      else if (may_take && (now = state()))
        offer = {.what = Offer::What::take,
                 .started = offer.started,
                 .over = offer.over,
                 .in_memory = wish.what == Wish::What::snapshot,
                 .memory_given_up = offer.memory_given_up};
    }
    offer = agreement_.from_first(offer);
    if (offer.what == Offer::What::nothing) return false;
    if (offer.what == Offer::What::take) {
      if (!std::isnan(wish.best_val_loss)) waiting_.reset();  // a best one that is none any more
      const auto place = follow(offer) ? free_snapshot(offer.in_memory) : std::nullopt;
      return take(step, offer.in_memory, wish.best_val_loss, std::move(now), place, begin);
    }
    wait_together();
  }
}

bool Checkpointing::take(std::int64_t step,
                         bool in_memory,
                         double best_val_loss,
                         std::optional<io::CheckpointState> state,
                         std::optional<std::size_t> place,
                         Clock::time_point begin) {
  const bool best = !std::isnan(best_val_loss);
  if (!in_memory) timer_.taken(Clock::now());
  if (!agreement_.alone())
    if (const std::vector<int> busy = agreement_.ranks_without(place.has_value()); !busy.empty()) {
      if (!in_memory)
        report_busy(step, busy);
      else if (leads())
        memory_.put_off(std::chrono::duration<double>(Clock::now() - begin).count());
      return false;
    }
  const bool by_host = is_host_snapshot(in_memory);
  Snapshot& snapshot = by_host ? memory_.copy() : snapshots_[place.value()];
  if (before_) before_();
  snapshot.take(position_);
  if (check_) check_();
  Save save{.number = ++number_,
            .snapshot = *place,
            .in_memory = in_memory,
            .is_best = best,
            .content = {
                .writers = by_host ? memory_.writers(number_) : agreement_.writers(parts_, number_),
                .state = {},
                .model = snapshot.model(),
                .optimizer = snapshot.optimizer(),
                .average = snapshot.average(),
                .texts = {}}};
  io::CheckpointContent& content = save.content;
  if (leads()) {
    content.state = std::move(state).value();
    content.state.best_val_loss = best ? best_val_loss : best_val_loss_;
    content.state.best_step = best ? step : best_step_;
    content.texts = options_.texts;
  }
  content.state.step = step;
  const bool shared = !by_host || memory_.share(content);
  add_stall(step, in_memory, begin);
  const std::vector<FlatRange>& parts = by_host ? memory_.parts() : parts_;
  const bool has_part = parts[std::size_t(agreement_.rank())].elems > 0;
  if (!leads() && !(shared && (has_part || content.writers.leads()))) return true;
  if (writing_)
    waiting_ = std::move(save);
  else
    start(std::move(save));
  return true;
}

std::optional<std::size_t> Checkpointing::free_snapshot(bool in_memory) const {
  if (writing_ && waiting_) return std::nullopt;
  const auto is_free = [&](std::size_t place) {
    return !(writing_ && written_snapshot_ == place) && !(waiting_ && waiting_->snapshot == place);
  };
  if (is_host_snapshot(in_memory))
    return is_free(kHostsCopy) ? std::optional(kHostsCopy) : std::nullopt;
  for (std::size_t i = 0; i < kSnapshots; ++i)
    if (is_free(i)) return i;
  return std::nullopt;
}

void Checkpointing::add_stall(std::int64_t step, bool in_memory, Clock::time_point begin) {
  const auto end = Clock::now();
  const double seconds = std::chrono::duration<double>(end - begin).count();
  if (in_memory) {
    memory_.taken(seconds);
    return;
  }
  timer_.taken(end);
  stall_seconds_ += seconds;
  longest_stall_ms_ = std::max(longest_stall_ms_, seconds * 1e3);
  if (leads()) stall_ms_[step] = seconds * 1e3;
}

void Checkpointing::start(Save save) {
  const io::CheckpointState& state = save.content.state;
  written_val_loss_ = state.best_step == state.step ? state.best_val_loss : kUnknown;
  written_ = save.number;
  ended_ = false;
  written_snapshot_ = save.snapshot;
  writes_memory_ = save.in_memory;
  if (writes_memory_)
    writer_.start(std::move(save.content), memory_.place());
  else
    writer_.start(std::move(save.content));
  writing_ = true;
  if (const auto failure = failures_.find(written_); failure != failures_.end())
    writer_.end_waiting(failure->second.first, failure->second.second);
  failures_.erase(failures_.begin(), failures_.upper_bound(written_));
}

void Checkpointing::tell_results() {
  for (io::CheckpointResult& result : writer_.take_results()) {
    writing_ = false;
    if (!result.error.empty()) {
      if (!leads() && !ended_)
        agreement_.add_failure({.save = written_,
                                .step = result.step,
                                .in_memory = writes_memory_,
                                .error = result.error,
                                .hint = result.hint});
    } else if (writes_memory_) {
      ++snapshots_taken_;
    } else {
      ++saves_;
      whole_step_ = result.step;
      if (!std::isnan(written_val_loss_)) {
        best_val_loss_ = written_val_loss_;
        best_step_ = result.step;
      }
    }
    written_val_loss_ = kUnknown;
    if (leads()) tell_result(std::move(result));
  }
  if (!writing_ && waiting_) {
    Save save = std::move(*waiting_);
    waiting_.reset();
    start(std::move(save));
  }
}

/// Of snapshots in memory only that there are none any more.
void Checkpointing::tell_result(io::CheckpointResult&& result) {
  const auto stall = stall_ms_.extract(result.step);
  if (writes_memory_) {
    if (result.error.empty()) {
      memory_.written(result.seconds);
      return;
    }
    if (is_host_snapshot(true) && memory_.given_up()) return;  // a rank has said why
    memory_.give_up();
  }
  tell({.step = result.step,
        .path = result.path.string(),
        .in_memory = writes_memory_,
        .seconds = result.seconds,
        .stall_ms = stall ? stall.mapped() : 0,
        .error = std::move(result.error),
        .hint = std::move(result.hint),
        .not_removed = std::move(result.not_removed)});
}

void Checkpointing::tell(const CheckpointRecord& record) {
  const StageScope stage(observers_.empty() ? nullptr : position_, RunStage::saving);
  for (TrainObserver* observer : observers_) observer->on_checkpoint(record);
}

void Checkpointing::report_busy(std::int64_t step, const std::vector<int>& busy) {
  if (!leads()) return;
  CheckpointRecord record;
  record.step = step;
  record.error = fmt::format("{}: {} {} still writing an earlier one",
                             as_written(options_.folder),
                             format_ranks(busy),
                             busy.size() == 1 ? "is" : "are");
  record.hint = "look at the file system as these ranks' hosts see it";
  tell(record);
}

bool Checkpointing::follow(const Offer& offer) {
  if (leads()) return true;
  // A host's snapshot is its own: it has not ended where that of rank 0's host has.
  const auto is_stale = [&](std::int64_t number, bool in_memory) {
    if (is_host_snapshot(in_memory)) return offer.memory_given_up;
    return number <= offer.over || (number > offer.started && number != offer.waiting);
  };
  if (waiting_ && is_stale(waiting_->number, waiting_->in_memory)) waiting_.reset();
  if (!writing_) return true;
  // Its part of a checkpoint waits for the snapshot of its host, which rank 0 does not know.
  if (waiting_ && is_host_snapshot(writes_memory_) && !is_stale(written_, true))
    writer_.wait_for(io::SaveStage::over, kPatience);
  if (is_stale(written_, writes_memory_)) {
    ended_ = true;
    writer_.end_waiting("the save has ended");
    if (!writer_.wait_for(io::SaveStage::over, kPatience)) return false;
  }
  tell_results();
  return true;
}

/// In short rounds, so that what fails on one rank ends the waiting of rank 0.
void Checkpointing::wait_together() {
  if (agreement_.alone() && !writing_) return;
  const StageScope stage(position_, RunStage::saving);
  while (true) {
    (void)follow(agreement_.from_first(standing()));
    if (memory_.by_host() ? agreement_.all(!(leads() ? writing_ : writes_host_snapshot()))
                          : !agreement_.from_first(writing_))
      return;
    if (writing_) writer_.wait_for(io::SaveStage::over, kRound);
    tell_results();
    agreement_.exchange_failures();
    tick_where_bytes_move();
  }
}

/// All ranks wait for the one that writes: they are alive as long as it is.
void Checkpointing::tick_where_bytes_move() {
  const std::uint64_t bytes = writer_.bytes_written();
  const bool moved = bytes != std::exchange(bytes_, bytes);
  const bool all_stand = agreement_.all(!moved);
  if (!all_stand && position_ != nullptr) position_->tick();
}

}  // namespace lockstep
