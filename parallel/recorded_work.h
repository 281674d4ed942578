// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/exec/backend.h"

namespace lockstep {

/// A piece of a step that was recorded: device work in segments, and between them what the host has
/// to do itself each time, as an exchange that MPI moves.
class RecordedWork {
 public:
  /// Asks the device for all of it, in order.
  void replay() const;

 private:
  friend class WorkRecorder;
  struct Part {
    std::unique_ptr<DeviceGraph> segment;  ///< null: `on_host`
    std::function<void()> on_host;
  };
  std::vector<Part> parts_;
};

/// Records a piece while it happens: each segment is launched once it is recorded.
class WorkRecorder {
 public:
  explicit WorkRecorder(Backend& backend);
  /// Ends the recording that is under way, where an exception is: the device goes on as before.
  ~WorkRecorder();
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;

  /// Ends a segment, does `work`, and begins the next; replays do `work` as well.
  void on_host(std::function<void()> work);
  RecordedWork finish();
  /// Whether anything has been done that cannot be done again.
  bool has_launched() const { return !work_.parts_.empty(); }

 private:
  void end_segment();

  Backend& backend_;
  RecordedWork work_;
  bool recording_ = false;
};

/// What a recorded piece depends on, beside what lies in device memory: pieces with equal keys do
/// the same.
struct PieceKey {
  std::int64_t samples = -1;  ///< of the micro-batch; -1: none
  bool accumulate = false;
  int stale_copies = 0;    ///< packed copies of weights that are made first
  int shards_pending = 0;  ///< pending sums before the shard that ends with it
  int merges = -1;         ///< with which that shard's sum is added; -1: no shard ends
  /// Of the global batch whose exchange and update it holds; -1: it is not a step's last piece.
  std::int64_t step_samples = -1;
  auto operator<=>(const PieceKey&) const = default;
};

/// The recorded pieces of a replica's steps.
class RecordedPieces {
 public:
  explicit RecordedPieces(Backend& backend) : backend_(backend) {}

  /// Null: that piece is not recorded.
  const RecordedWork* find(const PieceKey& key) const;
  /// Records what `work` asks for while it does so. False where nothing was done, and `work` has to
  /// be done by itself, what it changed on the host having been taken back: the first time, since
  /// libraries load and reserve what they need when a piece first happens; and where the device
  /// cannot record something, which why_not() then says. Throws what `work` throws once part of it
  /// has been done.
  bool record(const PieceKey& key, const std::function<void(WorkRecorder&)>& work);
  /// Empty while everything could be recorded.
  const std::string& why_not() const { return why_not_; }
  std::size_t recorded() const;

 private:
  Backend& backend_;
  std::map<PieceKey, std::optional<RecordedWork>> pieces_;  // nothing: has happened once
  std::string why_not_;
};

}  // namespace lockstep
