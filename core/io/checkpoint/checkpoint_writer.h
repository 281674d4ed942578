// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/save_progress.h"

namespace lockstep::io {

/// A folder of checkpoints, and how many of the newest stay in it.
struct CheckpointPlace {
  std::filesystem::path folder;
  int keep = 1;
  /// Of snapshots in memory: the folder is there, and stays private (is_private()), or nothing is
  /// written; the best one and that to roll back to have no place in it.
  bool in_memory = false;
};

/// What became of one save.
struct CheckpointResult {
  std::int64_t step = 0;
  std::filesystem::path path;
  double seconds = 0;  ///< on the writer's thread
  std::string error;   ///< empty: it is whole
  std::string hint;
  std::vector<std::string> not_removed;  ///< see remove_old_checkpoints()
};

/// Writes checkpoints one after the other on a thread of its own, on rank 0 whole ones, of which it
/// removes old ones after each, on other ranks their parts. Called by one thread. Errors are
/// results, never exceptions: a full disk must not end a training.
class CheckpointWriter {
 public:
  /// Starts the thread, which writes into `folder` what start() names no other place for. `keep`
  /// newest checkpoints stay.
  CheckpointWriter(std::filesystem::path folder, int keep);
  /// Finishes the save that is under way, unless other ranks keep it waiting for kGraceSeconds.
  ~CheckpointWriter();
  static constexpr double kGraceSeconds = 30;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// True where start() may be called, and tensors of the save before may change. Never blocks.
  bool idle() const;
  /// Hands `content` to the thread; what its tensors and parameters point to must stay as it is
  /// until idle(). Throws InternalError unless idle().
  void start(CheckpointContent content) { start(std::move(content), place_); }
  void start(CheckpointContent content, CheckpointPlace place);
  /// Waits until idle().
  void wait();
  /// Waits until the save that was last begun has come to `stage`, for `seconds` at most. Whether
  /// it has; true where there is none.
  bool wait_for(SaveStage stage, double seconds);
  /// Bytes that the save that was last begun has written.
  std::uint64_t bytes_written() const { return progress_ == nullptr ? 0 : progress_->bytes(); }
  /// The save under way, if any, will not become whole: SaveProgress::end_waiting().
  void end_waiting(const std::string& reason, const std::string& hint = {});
  /// What became of the saves that have ended since the last call, oldest first. Never blocks on
  /// the file system; allocates nothing where none has ended.
  std::vector<CheckpointResult> take_results();

 private:
  void work();
  static CheckpointResult write(const CheckpointContent& content,
                                const CheckpointPlace& place,
                                SaveProgress& progress);

  CheckpointPlace place_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<CheckpointContent> content_;  // being written; empty: idle
  CheckpointPlace written_into_;              // of content_
  std::unique_ptr<SaveProgress> progress_;    // of content_, or of the one before
  std::vector<CheckpointResult> results_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::io
