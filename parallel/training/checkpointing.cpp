// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/checkpointing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/step/stage_scope.h"

namespace lockstep {
namespace {

constexpr double kUnknown = io::CheckpointState::kUnknown;

}  // namespace

Checkpointing::Checkpointing(const CheckpointOptions& options,
                             const SavedArrays& saved,
                             const io::CheckpointState& resumed,
                             std::vector<TrainObserver*> observers)
    : options_(options),
      snapshots_{Snapshot(saved), Snapshot(saved)},
      observers_(std::move(observers)),
      writer_(options.folder, options.keep),
      best_val_loss_(resumed.best_val_loss),
      best_step_(resumed.best_step) {}

Checkpointing::~Checkpointing() = default;

bool Checkpointing::periodic() const {
  return options_.every_steps > 0 || options_.every_seconds > 0;
}

bool Checkpointing::due(std::int64_t step) {
  if (options_.every_steps > 0 && step % options_.every_steps == 0) due_ = true;
  if (options_.every_seconds > 0 &&
      std::chrono::duration<double>(Clock::now() - last_save_).count() >= options_.every_seconds)
    due_ = true;
  return due_;
}

bool Checkpointing::is_best(double val_loss) const {
  double lowest = std::fmin(best_val_loss_, written_val_loss_);  // ignores what is unknown
  if (waiting_) lowest = std::fmin(lowest, waiting_->state.best_val_loss);
  return !std::isnan(val_loss) && !(val_loss >= lowest);
}

bool Checkpointing::after_step(std::int64_t step, double val_loss, const StateFunction& state) {
  if (!periodic()) return false;
  if (writing_) tell_results();
  const bool best = is_best(val_loss);
  if (!due(step) && !best) return false;
  if (waits_for_previous_saves_) wait();
  if (best) {
    waiting_ = take(step, val_loss, state);  // in the place of a best one that is none any more
    const bool taken = waiting_.has_value();
    if (taken && !writing_) start(*std::exchange(waiting_, std::nullopt));
    return taken;
  }
  if (writing_) return false;
  auto content = take(step, kUnknown, state);
  if (!content) return false;
  start(std::move(*content));
  return true;
}

bool Checkpointing::save_now(std::int64_t step, const StateFunction& state) {
  wait();
  if (whole_step_ == step) return true;
  auto content = take(step, kUnknown, state);
  if (!content) return false;
  start(std::move(*content));
  writer_.wait();
  tell_results();
  return whole_step_ == step;
}

void Checkpointing::wait() {
  if (!writing_) return;
  const StageScope stage(position_, RunStage::saving);
  while (writing_) {
    writer_.wait();
    tell_results();
  }
}

void Checkpointing::resolve() {
  wait();
  due_ = false;
  whole_step_ = -1;
}

bool Checkpointing::save_last(std::int64_t step, const StateFunction& state) {
  return !periodic() || save_now(step, state);
}

std::optional<io::CheckpointContent> Checkpointing::take(std::int64_t step,
                                                         double val_loss,
                                                         const StateFunction& state) {
  const StageScope stage(position_, RunStage::saving);
  const auto begin = Clock::now();
  std::optional<io::CheckpointState> now = state();
  if (!now) return std::nullopt;
  Snapshot& snapshot = snapshots_[std::size_t(free_snapshot_)];
  if (tell_) tell_();
  snapshot.take(position_);
  if (check_) check_();
  io::CheckpointContent content{
      std::move(*now), snapshot.model(), snapshot.optimizer(), snapshot.average(), options_.texts};
  const bool best = !std::isnan(val_loss);
  content.state.best_val_loss = best ? val_loss : best_val_loss_;
  content.state.best_step = best ? step : best_step_;
  due_ = false;
  last_save_ = Clock::now();
  const double seconds = std::chrono::duration<double>(last_save_ - begin).count();
  stall_seconds_ += seconds;
  longest_stall_ms_ = std::max(longest_stall_ms_, seconds * 1e3);
  stall_ms_[step] = seconds * 1e3;
  return content;
}

void Checkpointing::start(io::CheckpointContent content) {
  const io::CheckpointState& state = content.state;
  written_val_loss_ = state.best_step == state.step ? state.best_val_loss : kUnknown;
  writer_.start(std::move(content));
  writing_ = true;
  free_snapshot_ = 1 - free_snapshot_;
}

void Checkpointing::tell_results() {
  for (io::CheckpointResult& result : writer_.take_results()) {
    writing_ = false;
    if (result.error.empty()) {
      ++saves_;
      whole_step_ = result.step;
      if (!std::isnan(written_val_loss_)) {
        best_val_loss_ = written_val_loss_;
        best_step_ = result.step;
      }
    }
    written_val_loss_ = kUnknown;
    const CheckpointRecord record{.step = result.step,
                                  .path = result.path.string(),
                                  .seconds = result.seconds,
                                  .stall_ms = stall_ms_[result.step],
                                  .error = std::move(result.error),
                                  .hint = std::move(result.hint),
                                  .not_removed = std::move(result.not_removed)};
    stall_ms_.erase(result.step);
    const StageScope stage(observers_.empty() ? nullptr : position_, RunStage::saving);
    for (TrainObserver* observer : observers_) observer->on_checkpoint(record);
  }
  if (!writing_ && waiting_) start(*std::exchange(waiting_, std::nullopt));
}

}  // namespace lockstep
