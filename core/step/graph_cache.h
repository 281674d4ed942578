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

/// A captured segment of a step: the device's graphs, and between them what the host has to do
/// itself each time, as whatever MPI moves.
class CapturedWork {
 public:
  /// Launches all of it, in order.
  void replay() const;

 private:
  friend class WorkCapture;
  struct Part {
    std::unique_ptr<DeviceGraph> graph;  ///< null: `host_work`
    std::function<void()> host_work;
  };
  std::vector<Part> parts_;
};

/// Captures a segment while it happens. A graph is launched once another follows; the last one when
/// its CapturedWork is replayed.
class WorkCapture {
 public:
  /// How much of a segment has been done while it was captured.
  struct Progress {
    int cuts = 0;             ///< graphs launched, each with the host's work behind it
    bool host_works = false;  ///< the work behind the next one is under way
  };
  /// Keeps `progress` up to date.
  WorkCapture(Backend& backend, Progress& progress);
  /// Keeps nothing, but goes on with a segment whose capture failed behind `done` cuts, at least
  /// one: until then what is asked of the device is captured and thrown away, and the host's work
  /// left out; the rest is launched eagerly.
  WorkCapture(Backend& backend, int done);
  /// Gives up the capture under way, if any: the device goes on as before.
  ~WorkCapture();
  WorkCapture(const WorkCapture&) = delete;
  WorkCapture& operator=(const WorkCapture&) = delete;

  /// Ends a graph, launches it, does `work`, and begins the next graph; replays do `work` as well.
  void cut_for_host(std::function<void()> work);
  /// Whether cuts that have been done are still to come.
  bool skips() const { return left_to_skip_ > 0; }
  CapturedWork finish();
  /// Launches what finish() left.
  static void launch_last(const CapturedWork& work);

 private:
  void begin();
  void abandon() noexcept;
  std::unique_ptr<DeviceGraph> end();

  Backend& backend_;
  CapturedWork work_;
  Progress* const progress_;  // null: goes on with a segment
  int left_to_skip_ = 0;      // cuts
  bool captures_ = false;
};

/// What a captured segment depends on, beside what lies in device memory: segments with equal keys
/// do the same. Those that end steps of as many samples have one key on a rank, whatever was
/// between the steps, so that all ranks capture and replay them at once.
struct GraphKey {
  std::int64_t samples = -1;  ///< of the micro-batch; -1: none
  bool accumulate = false;
  int stale_copies = 0;    ///< packed copies of weights that are made first
  int shards_pending = 0;  ///< pending sums before the shard that ends with it
  /// With which that shard's sum is added, 0 where that is the host's work; -1: no shard ends.
  int merges = -1;
  /// Of the global batch whose exchange and update it holds; -1: it is not a step's last segment.
  std::int64_t step_samples = -1;
  /// Where NCCL moves the statistics of batch norm over several ranks: its place in steps of
  /// `step_samples` samples, which all else follows from. Nothing else is said then.
  int round = -1;
  auto operator<=>(const GraphKey&) const = default;
};

/// The captured segments of a replica's steps.
class GraphCache {
 public:
  explicit GraphCache(Backend& backend) : backend_(backend) {}

  /// Null: that segment is not captured.
  const CapturedWork* find(const GraphKey& key) const;

  struct Attempt {
    std::function<void(WorkCapture&)> launch;  ///< asks the device for the segment
    /// Whether all ranks have captured it, which this one has or has not. Where collectives stand
    /// in the work all ranks replay it, or none.
    std::function<bool(bool captured)> agree;
  };
  /// Captures what `launch` asks for, and does it. False where nothing was done, and `launch` has
  /// to be called by itself: the first time, since libraries load, connect and reserve what they
  /// need when a segment first happens, and where it failed before; `launch` was not called then.
  /// And where a device cannot capture something, or another rank could not: then has_failed(),
  /// why_not() says what it was, and what `launch` changed on the host has to be taken back. But
  /// where it fails behind a cut `launch` is called again for what is left, and true returned.
  ///
  /// Throws what `launch` throws otherwise: also CommError, since a communicator that has failed in
  /// a capture is of no use to other work either.
  bool capture(const GraphKey& key, const Attempt& attempt);
  /// Whether the last capture() failed.
  bool has_failed() const { return has_failed_; }
  /// Of the last that failed; empty while all succeeded.
  const std::string& why_not() const { return why_not_; }
  /// How many segments are captured.
  std::size_t size() const;

 private:
  struct Entry {
    std::optional<CapturedWork> work;  // nothing: has happened
    bool fails = false;                // cannot be captured here
  };

  /// Nothing: it failed, and why_not_ says at what.
  std::optional<CapturedWork> try_to_capture(const Attempt& attempt,
                                             WorkCapture::Progress& progress);

  Backend& backend_;
  std::map<GraphKey, Entry> entries_;
  std::string why_not_;
  bool has_failed_ = false;
};

}  // namespace lockstep
