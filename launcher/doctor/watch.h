// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "launcher/doctor/finding.h"

namespace lockstep::doctor {

/// Speaks up where something that is looked at never answers: a driver, a file system. Such a call
/// cannot be ended, the program around it can.
class Watch {
 public:
  /// Called once at most, on the watch's thread while begin(), found() and stop() wait: with what
  /// was found so far and, last, the failure of the subject that took longer than the limit.
  using GiveUp = std::function<void(Findings)>;

  Watch(std::chrono::milliseconds limit, GiveUp give_up);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// From now on `subject` is looked at, and has the whole limit.
  void begin(const std::string& subject);
  void found(const Finding& finding);
  /// Nothing is looked at: what comes now may take any time.
  void pause();
  void stop();

 private:
  void run();

  std::chrono::milliseconds limit_;
  GiveUp give_up_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string subject_;  ///< empty: none
  std::chrono::steady_clock::time_point end_;
  Findings found_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace lockstep::doctor
