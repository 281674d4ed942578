// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::data {

/// Decides how many workers load samples, from how long training waited for them. It looks at
/// windows of at least a second and eight micro-batches:
///  - waiting took more than 2% of the window: one more, on trial. Where micro-batches then do not
///    come at least 2% faster (workers and training share the cores, or the disk is the limit), it
///    is taken back and not tried again for a while, longer each time;
///  - hardly any waiting, and the others had time for one worker's work: one less.
/// Only the number of threads follows from it, never the bytes.
class WorkerControl {
 public:
  /// Begins with one worker of at most `most`.
  explicit WorkerControl(int most) : most_(most) {}

  /// After each micro-batch: the time it was asked for, the seconds waited for it, and the seconds
  /// all workers have been busy since the start. Returns the number of workers from now on.
  int after_batch(double now, double waited, double busy);

  int workers() const { return workers_; }
  int most() const { return most_; }

 private:
  void close_window(double busy);

  static constexpr double kWindowSeconds = 1.0;
  static constexpr int kWindowBatches = 8;

  int most_;
  int workers_ = 1;

  bool started_ = false;
  double last_ = 0;         // when the micro-batch before was asked for
  double usual_gap_ = 0;    // seconds between two, smoothed
  double seconds_ = 0;      // of the window, pauses skipped
  double waited_ = 0;       // in the window
  double busy_before_ = 0;  // at the start of the window
  int batches_ = 0;         // in the window
  int pauses_ = 0;          // gaps in a row that were skipped

  bool trial_ = false;       // the window runs with one worker more than the one before
  bool fresh_ = true;        // the window began with other conditions: it only warms up
  double rate_before_ = 0;   // micro-batches a second without it
  int windows_to_wait_ = 0;  // until the next trial
  int next_wait_ = 8;
};

}  // namespace lockstep::data
