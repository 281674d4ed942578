// SPDX-License-Identifier: Apache-2.0
#include "core/base/exit_deadline.h"

#include <condition_variable>
#include <mutex>
#include <unistd.h>

#include "core/base/signal_masked_thread.h"

namespace lockstep {

struct ExitDeadline::Wait {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
};

ExitDeadline::ExitDeadline(std::chrono::milliseconds time, int exit_code) {
  const auto end = std::chrono::steady_clock::now() + time;
  try {
    const auto wait = std::make_shared<Wait>();
    start_signal_masked_thread([wait, end, exit_code] {
      std::unique_lock lock(wait->mutex);
      if (!wait->changed.wait_until(lock, end, [&] { return wait->is_over; })) _exit(exit_code);
    }).detach();
    wait_ = wait;
  } catch (...) {  // is_set() says so
  }
}

ExitDeadline::~ExitDeadline() {
  if (wait_ == nullptr) return;
  const std::lock_guard lock(wait_->mutex);
  wait_->is_over = true;
  wait_->changed.notify_one();
}

void exit_after(std::chrono::milliseconds time, int exit_code) {
  ExitDeadline deadline(time, exit_code);
  if (!deadline.is_set()) _exit(exit_code);
  deadline.keep();
}

}  // namespace lockstep
