// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_watch.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "core/base/signal_masked_thread.h"

namespace lockstep {

NcclWatch::NcclWatch() : thread_(start_signal_masked_thread([this] { run(); })) {}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void NcclWatch::add(NcclLink& link) {
  {
    const std::lock_guard lock(mutex_);
    links_.push_back(&link);
  }
  changed_.notify_one();
}

void NcclWatch::remove(NcclLink& link) {
  const std::lock_guard lock(mutex_);
  std::erase(links_, &link);
}

void NcclWatch::run() {
  constexpr auto kLook = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex_);
  while (!ends_) {
    changed_.wait(lock, [this] { return ends_ || !links_.empty(); });
    changed_.wait_for(lock, kLook, [this] { return ends_; });
    for (NcclLink* link : links_) {
      try {
        link->look_aside();
      } catch (const std::bad_alloc&) {  // for the text; the next look may have the memory
      }
    }
  }
}

}  // namespace lockstep
