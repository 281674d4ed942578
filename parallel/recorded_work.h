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

/// Records a piece while it happens. A segment is launched once another follows; the last one when
/// its RecordedWork is replayed.
class WorkRecorder {
 public:
  /// How much of a piece has been done while it was recorded.
  struct Progress {
    int cuts = 0;             ///< segments, each with the host's work behind it
    bool host_works = false;  ///< the work behind the next one is under way
  };
  /// Keeps `progress` up to date.
  WorkRecorder(Backend& backend, Progress& progress);
  /// Records nothing, but goes on with a piece whose recording failed behind `done` cuts, at least
  /// one: until then what is asked of the device is recorded and thrown away, and the host's work
  /// left out; the rest is done at once.
  WorkRecorder(Backend& backend, int done);
  /// Gives up the recording under way, if any: the device goes on as before.
  ~WorkRecorder();
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;

  /// Ends a segment, has the device do it, does `work`, and begins the next segment; replays do
  /// `work` as well.
  void on_host(std::function<void()> work);
  RecordedWork finish();
  /// Has the device do what finish() left.
  static void launch_last(const RecordedWork& work);

 private:
  std::unique_ptr<DeviceGraph> end_segment();

  void begin();
  void abandon() noexcept;

  Backend& backend_;
  RecordedWork work_;
  Progress* const progress_;  // null: goes on with a piece
  int left_to_skip_ = 0;      // cuts
  bool recording_ = false;
};

/// What a recorded piece depends on, beside what lies in device memory: pieces with equal keys do
/// the same. Those that end steps of as many samples have one key on a rank, whatever was between
/// the steps, so that all ranks record and replay them at once.
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

  struct Attempt {
    std::function<void(WorkRecorder&)> work;  ///< asks for the piece
    /// Whether all ranks have recorded it, which this one has or has not. Where collectives stand
    /// in the work all ranks replay it, or none.
    std::function<bool(bool recorded)> agree;
  };
  /// Records what `work` asks for, and does it. False where nothing was done, and `work` has to be
  /// done by itself: the first time, since libraries load, connect and reserve what they need when
  /// a piece first happens, and where it failed before; `work` was not called then. And where a
  /// device cannot record something, or another rank could not: then has_failed(), why_not() says
  /// what it was, and what `work` changed on the host has to be taken back. But where it fails
  /// behind a cut `work` is called again for what is left, and true returned.
  ///
  /// Throws what `work` throws otherwise: also CommError, since a communicator that has failed
  /// while it was recorded is of no use to other work either.
  bool record(const PieceKey& key, const Attempt& attempt);
  /// Whether the last record() failed.
  bool has_failed() const { return has_failed_; }
  /// Of the last that failed; empty while all could be recorded.
  const std::string& why_not() const { return why_not_; }
  std::size_t recorded() const;

 private:
  struct Piece {
    std::optional<RecordedWork> work;  // nothing: has happened
    bool fails = false;                // cannot be recorded here
  };

  /// Nothing: it failed, and why_not_ says at what.
  std::optional<RecordedWork> try_to_record(const Attempt& attempt,
                                            WorkRecorder::Progress& progress);

  Backend& backend_;
  std::map<PieceKey, Piece> pieces_;
  std::string why_not_;
  bool has_failed_ = false;
};

}  // namespace lockstep
