// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/io/run_log.h"
#include "launcher/output/run_lock.h"
#include "launcher/settings/train_flags.h"
#include "lockstep/train_records.h"

namespace lockstep {

struct RestartRecord;

/// The folder that a run writes into; rank 0's. Creating it and begin() may throw; later trouble (a
/// full disk, a folder that is moved or removed) never stops the training: it is collected,
/// and returned by finish().
class RunFolder final : public TrainObserver {
 public:
  /// What may be in the folder already.
  enum class Existing {
    nothing,
    anything,  ///< --force: to be written over
    own_run,   ///< --resume: a resumed run, or one that was cut off before its first checkpoint
  };

  /// Throws ConfigError where `out` already holds something that `existing` does not allow; or,
  /// unless it is to be written over or continued in, is another user's and every user can write to
  /// it; EnvironmentError where that cannot be found out. An empty `out` is a folder to be named
  /// later.
  static void check(const std::string& out, Existing existing);

  /// Creates a folder runs/<local time> that no other run has, and returns its path. Throws
  /// EnvironmentError: it cannot be created.
  static std::string create_fresh();

  /// Creates `out` (or a new runs/<local time>), and locks it. What is there stays as it is.
  /// Throws as check(); EnvironmentError: it cannot be created, with the system's reason, or
  /// another run works in it.
  RunFolder(const std::string& out, Existing existing);
  /// Unless the run began, removes the folders that the constructor created.
  ~RunFolder() override;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// To be called once, when training starts and before anything is written: creates logs/ and
  /// metrics.jsonl. A resumed run (`resumed`) keeps its logs, of metrics.jsonl what lies
  /// before the checkpoint, and earlier results until it does a step; otherwise results, logs and
  /// checkpoints of an earlier run are removed, and nothing else. Throws EnvironmentError: a file
  /// cannot be created.
  void begin(const ResumeRecord* resumed = nullptr);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Appends a line to history.jsonl, which has one for each process of the run; the first of a run
  /// that begins anew takes the place of an earlier run's.
  void add_history(const std::string& line);
  /// Writes a whole small file.
  void write_file(const std::string& name, const std::string& text);
  void add_fault(const RestartRecord& record);  ///< to metrics.jsonl
  void add_error(const std::string& error) { errors_.push_back(error); }

  void on_step(const StepRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_checkpoint(const CheckpointRecord& record) override;
  void on_skip(const SkipRecord& record) override;
  void on_rollback(const RollbackRecord& record) override;
  void on_stop(const TrainSummary& summary) override;
  void on_end(const TrainSummary& summary) override;

  /// Closes metrics.jsonl and returns what could not be written, each as "FILE: reason".
  std::vector<std::string> finish();
  /// RunLock::note_end(), of which `lockstep run` asks.
  void note_end(int exit_code) {
    if (lock_) lock_->note_end(exit_code);
  }

 private:
  void look_for_folder();
  void remove_created();
  void remove_results();
  void remove_earlier_run();

  std::string path_;
  struct Identity {
    std::uint64_t device = 0, inode = 0;
    bool operator==(const Identity&) const = default;
  };
  static Identity identity_of(const std::string& path);
  Identity identity_ = {};  // of the folder at path_, since begin(); zeros: not known, or gone
  std::unique_ptr<RunLock> lock_;
  std::vector<std::filesystem::path> created_;  // outermost first
  bool begun_ = false;
  bool resumed_ = false;          // history.jsonl is this run's and keeps its lines
  bool results_are_old_ = false;  // of before the run resumed, until it does a step
  RunLog metrics_;
  std::vector<std::string> errors_;
  std::string checkpoint_error_;  // of the newest one
};

/// What `flags` allow to be in --out.
RunFolder::Existing existing_folder(const TrainFlags& flags);

}  // namespace lockstep
