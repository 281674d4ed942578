// SPDX-License-Identifier: Apache-2.0
#include "core/data/worker_control.h"

#include <algorithm>

namespace lockstep::data {
namespace {

constexpr double kWaiting = 0.02;     // share of the window that calls for a worker
constexpr double kNoWaiting = 0.005;  // share that allows to do with fewer
constexpr double kFaster = 1.02;      // what a worker on trial has to bring
constexpr double kSpare = 0.7;        // load that the remaining workers may have
constexpr double kPause = 5;          // gaps this many times the usual one are not training
constexpr int kPausesInARow = 8;      // from here on, steps have become that slow
constexpr int kLongestWait = 256;     // windows

}  // namespace

int WorkerControl::after_batch(double now, double waited, double busy) {
  const double gap = now - last_;
  last_ = now;
  if (!started_) {
    started_ = true;
    busy_before_ = busy;
    return workers_;
  }
  // A gap that holds an evaluation or a checkpoint says nothing about loading.
  if (usual_gap_ > 0 && gap > kPause * usual_gap_ + waited && ++pauses_ < kPausesInARow)
    return workers_;
  pauses_ = 0;
  usual_gap_ = usual_gap_ == 0 ? gap : 0.9 * usual_gap_ + 0.1 * gap;
  seconds_ += gap;
  waited_ += waited;
  ++batches_;
  if (seconds_ >= kWindowSeconds && batches_ >= kWindowBatches) close_window(busy);
  return workers_;
}

void WorkerControl::close_window(double busy) {
  const double rate = batches_ / seconds_, waiting = waited_ / seconds_,
               load = (busy - busy_before_) / seconds_;
  seconds_ = waited_ = 0;
  batches_ = 0;
  busy_before_ = busy;
  if (windows_to_wait_ > 0) --windows_to_wait_;
  if (fresh_) {  // slots filled under the old conditions are used up first
    fresh_ = false;
    return;
  }
  if (trial_) {
    trial_ = false;
    if (rate >= rate_before_ * kFaster) {
      next_wait_ = 8;
    } else {
      --workers_;
      fresh_ = true;
      windows_to_wait_ = next_wait_;
      next_wait_ = std::min(2 * next_wait_, kLongestWait);
      return;
    }
  }
  if (waiting > kWaiting && workers_ < most_ && windows_to_wait_ == 0) {
    rate_before_ = rate;
    ++workers_;
    trial_ = fresh_ = true;
  } else if (waiting < kNoWaiting && workers_ > 1 && load < kSpare * (workers_ - 1)) {
    --workers_;
    fresh_ = true;
  }
}

}  // namespace lockstep::data
