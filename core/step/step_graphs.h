// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/step_plan.h"

namespace lockstep {

// Note [Step graphs]
//
// Between the loading of one micro-batch and the next the host asks the device for a segment of
// the step that is the same in every step: hundreds of launches whose arguments do not change,
// since what does (StepCounters, samples, their weight) lies in device memory. The first time it
// runs eagerly, the second time it is captured as a CUDA graph, afterwards one launch replays it.
// Exchange and update are part of a step's last segment. What MPI moves is the host's: each bucket,
// the sum of a shard, and every statistic of batch norm that ranks share. A segment's StepPlan has
// them among the parts that the device does, so that a segment is several graphs, between which the
// host works. Then no rank has to know whether another replays. Steps in which somebody looks at
// single phases or gradients are not replayed.
//
// NCCL wants a collective captured, and replayed, by all its ranks or by none. So all that decides
// it is equal on all ranks, or agreed upon: why nothing is captured, which steps are looked at, and
// whether a capture succeeded; and the last segments of steps of as many samples have one key.
// Where batch norm's groups are of several ranks NCCL stands in every segment. Then all keys
// are places: a round in a step of so many samples. A schedule is a function of samples and rank,
// the ranks of a group have equally many rounds, since who has fewer micro-batches joins the others
// without samples, and what else keys hold follows from the place. So all ranks of a group come to
// a segment for the first time, capture it and replay it in the same rounds, and agree among
// themselves; in the last segment all ranks do. Where their micro-batches differ the exchange is a
// segment of its own on all of them. Copies of weights that updates write are fresh when a step
// begins, whatever came before it; the others are stale in the first segment that reads them.
//
// Where a capture fails before anything was done the segment runs eagerly instead. Once parts have
// been done, those that are left run without graphs, from the first of the graph that failed. There
// is no way on where the host's own work fails behind a graph. Nor is there from an error of NCCL
// inside a capture: its communicator has been given up by then, so that the error says how to do
// without graphs.

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

/// A segment of a step as it is to be done now.
class StepSegment {
 public:
  virtual ~StepSegment() = default;
  /// Its parts; asked for where it is not replayed, and valid until another segment's are.
  virtual const StepPlan& plan() = 0;
  /// Does `part`, or, within a capture, asks for it. `eagerly`: all of the segment runs part by
  /// part, so that each can be timed.
  virtual void run(const StepPart& part, bool eagerly) = 0;
  /// Whether all ranks have captured it, which this one has or has not. Where collectives stand in
  /// the work all ranks replay it, or none.
  virtual bool agree(bool captured) = 0;
  /// Takes back what asking for its parts has changed on the host: none of them was done.
  virtual void undo() = 0;
};

/// Runs all parts of `segment`, one after the other.
void run_eagerly(StepSegment& segment);

/// How a segment was done.
enum class StepWay : std::uint8_t { eager, captured, replayed };

/// The captured segments of a replica's steps; see Note [Step graphs].
class StepGraphs {
 public:
  explicit StepGraphs(Backend& backend) : backend_(backend) {}

  /// Does `segment`: eagerly where it happens for the first time, since libraries load, connect and
  /// reserve what they need then, or could not be captured before; else its parts are captured
  /// while they are done, or replayed. Where the device cannot capture something, or another rank
  /// could not: see has_failed(). Throws what the parts throw otherwise: also CommError, since a
  /// communicator that has failed in a capture is of no use to other work either.
  StepWay run(const GraphKey& key, StepSegment& segment);
  /// Whether the last run() tried to capture a segment, and could not.
  bool has_failed() const { return has_failed_; }
  /// `why_not` is of the last that failed.
  GraphUse use() const;

 private:
  /// What a replay does at one place: launches a graph or, where that is null, `host_part`.
  struct Captured {
    std::unique_ptr<DeviceGraph> graph;
    StepPart host_part;
  };
  struct Entry {
    std::optional<std::vector<Captured>> work;  // nothing: not captured
    bool fails = false;                         // cannot be captured here
  };

  StepWay capture(Entry& entry, StepSegment& segment);
  /// The graph of parts that are the device's; nothing: it failed, and why_not_ says at what.
  std::optional<std::unique_ptr<DeviceGraph>> try_to_capture(std::span<const StepPart> parts,
                                                             StepSegment& segment);
  /// The segment cannot be captured, and nothing of it was done.
  StepWay give_up(Entry& entry, StepSegment& segment);

  Backend& backend_;
  std::map<GraphKey, Entry> entries_;
  std::string why_not_;
  std::int64_t replays_ = 0;
  bool has_failed_ = false;
};

}  // namespace lockstep
