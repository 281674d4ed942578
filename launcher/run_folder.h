// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/io/run_log.h"
#include "parallel/train_records.h"

namespace lockstep {

/// The folder that a run writes into; rank 0's. Creating it may throw; later trouble (a full disk)
/// never stops the training: it is collected in errors().
class RunFolder final : public TrainObserver {
 public:
  /// Throws ConfigError where `out` already holds something and `force` does not allow to write
  /// there. An empty `out` is a folder to be named later.
  static void check(const std::string& out, bool force);

  /// Creates `out` (or runs/<local time>) with logs/. With `force`, results of an earlier run there
  /// are removed. Throws ConfigError as check(); EnvironmentError: it cannot be created, with the
  /// system's reason.
  RunFolder(const std::string& out, bool force);
  ~RunFolder() override;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Writes a whole small file.
  void write_file(const std::string& name, const std::string& text);
  void add_error(const std::string& error) { errors_.push_back(error); }

  void on_step(const StepRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_end(const TrainSummary& summary) override;

  /// Closes metrics.jsonl and returns what could not be written, each as "FILE: reason".
  std::vector<std::string> finish();
  /// Removes the folder where this object created it and no step was logged, so that the same
  /// command can be given again after a refused start.
  void discard_unused();

 private:
  std::string path_;
  bool created_ = false;
  bool used_ = false;
  RunLog metrics_;
  std::vector<std::string> errors_;
};

}  // namespace lockstep
