// SPDX-License-Identifier: Apache-2.0
#include "core/io/checkpoint/save_progress.h"

#include <chrono>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::io {

void SaveProgress::require_open() const {
  const std::lock_guard lock(mutex_);
  if (ended_) throw EnvironmentError(reason_, hint_);
}

void SaveProgress::sleep(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ended_; });
}

void SaveProgress::set(SaveStage stage) {
  const std::lock_guard lock(mutex_);
  stage_ = stage;
  changed_.notify_all();
}

bool SaveProgress::wait_for(SaveStage stage, double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(
      lock, std::chrono::duration<double>(seconds), [&] { return stage_ >= stage; });
}

void SaveProgress::end_waiting(std::string reason, std::string hint) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return;
  reason_ = std::move(reason);
  hint_ = std::move(hint);
  changed_.notify_all();
}

}  // namespace lockstep::io
