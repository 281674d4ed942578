// SPDX-License-Identifier: Apache-2.0
#include "parallel/checkpointing.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

Checkpointing::Checkpointing(const CheckpointOptions& options,
                             const SavedArrays& saved,
                             const io::CheckpointState& resumed,
                             std::vector<TrainObserver*> observers)
    : options_(options),
      snapshot_(saved),
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

void Checkpointing::after_step(std::int64_t step, double val_loss, const StateFunction& state) {
  if (!periodic()) return;
  if (writing_) tell_results();
  const bool best = !std::isnan(val_loss) && !(val_loss >= best_val_loss_);
  if (!due(step) && !best) return;
  if (writing_ && best) {
    // The next step changes the weights, and only the best ones are worth a wait.
    writer_.wait();
    tell_results();
  }
  if (writing_) return;
  if (best) {
    best_val_loss_ = val_loss;
    best_step_ = step;
  }
  save(step, state);
}

bool Checkpointing::save_now(std::int64_t step, const StateFunction& state) {
  writer_.wait();
  tell_results();
  if (saved_step_ != step || whole_step_ != step) {
    save(step, state);
    writer_.wait();
    tell_results();
  }
  return whole_step_ == step;
}

bool Checkpointing::save_last(std::int64_t step, const StateFunction& state) {
  return !periodic() || save_now(step, state);
}

void Checkpointing::save(std::int64_t step, const StateFunction& state) {
  const auto begin = Clock::now();
  snapshot_.take();
  io::CheckpointContent content{state(), snapshot_.model(), snapshot_.optimizer(), options_.texts};
  content.state.best_val_loss = best_val_loss_;
  content.state.best_step = best_step_;
  writer_.start(std::move(content));
  writing_ = true;
  due_ = false;
  saved_step_ = step;
  last_save_ = Clock::now();
  const double seconds = std::chrono::duration<double>(last_save_ - begin).count();
  stall_seconds_ += seconds;
  longest_stall_ms_ = std::max(longest_stall_ms_, seconds * 1e3);
  stall_ms_[step] = seconds * 1e3;
}

void Checkpointing::tell_results() {
  for (io::CheckpointResult& result : writer_.take_results()) {
    writing_ = false;
    if (result.error.empty()) {
      ++saves_;
      whole_step_ = result.step;
    }
    const CheckpointRecord record{.step = result.step,
                                  .path = result.path.string(),
                                  .seconds = result.seconds,
                                  .stall_ms = stall_ms_[result.step],
                                  .error = std::move(result.error),
                                  .hint = std::move(result.hint),
                                  .not_removed = std::move(result.not_removed)};
    stall_ms_.erase(result.step);
    for (TrainObserver* observer : observers_) observer->on_checkpoint(record);
  }
}

}  // namespace lockstep
