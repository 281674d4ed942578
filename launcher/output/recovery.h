// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/output/restart_record.h"
#include "lockstep/console.h"
#include "lockstep/train_records.h"

namespace lockstep {

class RunFolder;

/// Follows a run that was started after a fault until its first step is done, and then tells of the
/// fault: a line in metrics.jsonl and one on the console.
class Recovery final : public TrainObserver {
 public:
  /// Both must outlive it.
  Recovery(RestartFacts facts, RunFolder& folder, Console& console);
  void on_start(const ResumeRecord* resumed) override;
  void on_first_step() override;

 private:
  RestartRecord record_;
  double ready_ = 0;
  RunFolder& folder_;
  Console& console_;
};

}  // namespace lockstep
