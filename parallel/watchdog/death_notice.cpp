// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/death_notice.h"

#include <chrono>
#include <utility>

namespace lockstep::watch {

using Seconds = std::chrono::duration<double>;

void DeathNotice::set_callback(std::function<void()> callback) {
  const std::lock_guard lock(callback_mutex_);
  callback_ = std::move(callback);
}

void DeathNotice::post(const FaultRecord& record) {
  {
    const std::lock_guard lock(mutex_);
    record_ = record;
  }
  changed_.notify_all();
  const std::lock_guard lock(callback_mutex_);
  if (callback_) callback_();
}

void DeathNotice::set_reported() {
  {
    const std::lock_guard lock(mutex_);
    is_reported_ = true;
  }
  changed_.notify_all();
}

std::optional<FaultRecord> DeathNotice::await(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, Seconds(seconds), [this] { return record_.has_value(); });
  return record_;
}

void DeathNotice::await_report(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, Seconds(seconds), [this] { return is_reported_; });
}

}  // namespace lockstep::watch
