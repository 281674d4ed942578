// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/io/checkpoint.h"

namespace lockstep::io {

/// What became of one save.
struct CheckpointResult {
  std::int64_t step = 0;
  std::filesystem::path path;
  double seconds = 0;  ///< on the writer's thread
  std::string error;   ///< empty: it is whole
  std::string hint;
  std::vector<std::string> not_removed;  ///< see remove_old_checkpoints()
};

/// Writes checkpoints one after the other on a thread of its own, and removes old ones after each
/// that is whole. Called by one thread. Errors are results, never exceptions: a full disk must not
/// end a training.
class CheckpointWriter {
 public:
  /// Starts the thread. `keep` newest checkpoints stay.
  CheckpointWriter(std::filesystem::path folder, int keep);
  /// Finishes the save that is under way.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// True where start() may be called, and tensors of the save before may change. Never blocks.
  bool idle() const;
  /// Hands `content` to the thread; what its tensors and parameters point to must stay as it is
  /// until idle(). Throws InternalError unless idle().
  void start(CheckpointContent content);
  /// Waits until idle().
  void wait();
  /// What became of the saves that have ended since the last call, oldest first. Never blocks on
  /// the file system; allocates nothing where none has ended.
  std::vector<CheckpointResult> take_results();

 private:
  void work();
  CheckpointResult write(const CheckpointContent& content) const;

  std::filesystem::path folder_;
  int keep_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<CheckpointContent> content_;  // being written; empty: idle
  std::vector<CheckpointResult> results_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::io
