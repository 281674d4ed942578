// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/io/run_log.h"
#include "parallel/train_records.h"

namespace lockstep {

/// The folder that a run writes into; rank 0's. Creating it and begin() may throw; later trouble (a
/// full disk) never stops the training: it is collected in errors().
class RunFolder final : public TrainObserver {
 public:
  /// Throws ConfigError where `out` already holds something and `force` does not allow to write
  /// there; EnvironmentError where that cannot be found out. An empty `out` is a folder to be named
  /// later.
  static void check(const std::string& out, bool force);

  /// Creates `out` (or a new runs/<local time>), empty. What is there stays as it is.
  /// Throws as check(); EnvironmentError: it cannot be created, with the system's reason.
  RunFolder(const std::string& out, bool force);
  /// Unless the run began, removes the folders that the constructor created.
  ~RunFolder() override;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// To be called once, when training starts and before anything is written: creates logs/ and
  /// metrics.jsonl and removes results and logs of an earlier run.
  /// Throws EnvironmentError: these cannot be created.
  void begin();

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

 private:
  void remove_created();

  std::string path_;
  std::vector<std::filesystem::path> created_;  // outermost first
  bool begun_ = false;
  RunLog metrics_;
  std::vector<std::string> errors_;
};

}  // namespace lockstep
