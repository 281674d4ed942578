// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "parallel/watchdog/fault_record.h"

namespace lockstep::watch {

/// What a watchdog tells the training thread of a death that this rank outlives. Both threads use
/// it.
class DeathNotice {
 public:
  /// `callback` is called by post(), in the watchdog's thread. Empty: nothing is. Returns once no
  /// call of the one before is under way.
  void set_callback(std::function<void()> callback);

  /// By the watchdog: the record is there from now on. Throws what the callback throws.
  void post(const FaultRecord& record);
  /// By the watchdog: the record has been written and sent.
  void set_reported();

  /// The record, waited for until `seconds` have passed.
  std::optional<FaultRecord> await(double seconds);
  void await_report(double seconds);

 private:
  std::mutex callback_mutex_;
  std::function<void()> callback_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<FaultRecord> record_;
  bool is_reported_ = false;
};

}  // namespace lockstep::watch
