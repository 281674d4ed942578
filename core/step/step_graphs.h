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
// Between the loading of one micro-batch and the next the host enqueues a segment of the step. It
// is the same in every step: hundreds of launches whose arguments do not change, since what changes
// (StepCounters, samples, their weight) lies in device memory. The segment runs eagerly the first
// time, is captured as a CUDA graph the second time, and is replayed by one launch afterwards.
// Exchange and update are part of a step's last segment. The host does what MPI moves, and begins
// what NCCL moves: each bucket, the sum of a shard, and every statistic of batch norm over several
// ranks. A segment's StepPlan lists these among the parts of the device, so that a segment becomes
// several graphs, and the host works between them. Then a rank replays independently of the others.
// Steps whose phases or gradients are measured one by one are not replayed.
//
// LOCKSTEP_GRAPH=nccl captures what NCCL moves as well. It is not the default: two ranks that
// shared an H200 (driver 580.159, NCCL 2.28.9) ended in cudaGraphUpload() of such a graph; it has
// not run on GPUs of their own. NCCL requires that all ranks of a collective capture it, or none,
// and the same for a replay. So everything that decides this is equal on all ranks or agreed upon:
// the reason against capture, which steps are measured, and whether a capture succeeded. The last
// segments of steps with as many samples have one key. Where a batch norm's group spans several
// ranks, every segment holds collectives of NCCL, and with sharded gradients each that ends a
// shard; the key of such a segment is a place: a round in a step of so many samples. That is
// enough, since the place decides the rest of the key: a schedule is a function of samples and
// rank, and the ranks of a group have equally many rounds, as a rank with fewer micro-batches joins
// with 0 samples. So all ranks of a group first run, capture and replay a segment in the same
// rounds, and agree within the group; in a segment with an exchange of gradients all ranks do, each
// of which has it once in such a step. Where the ranks' counts of micro-batches differ, the
// exchange is a segment of its own on all of them. The bf16 weight copy, which updates write, is
// fresh when a step begins, whatever ran before it; other packed copies are stale in the first
// segment that reads them.
//
// Where a capture fails before any part has run, the segment runs eagerly instead. Once parts have
// run, the remaining ones run without graphs, from the first part of the graph that failed. An
// error of the host's own work after a graph ends the run. So does an error of NCCL inside a
// capture: its communicator is aborted by then, and the error says how to train without graphs.

/// What a captured segment depends on, apart from the contents of device memory: segments with
/// equal keys do the same. The last segments of steps with as many samples have one key on a rank,
/// whatever ran between the steps, so that all ranks capture and replay them in the same step.
struct GraphKey {
  std::int64_t samples = -1;  ///< of the micro-batch; -1: none
  bool accumulate = false;
  int stale_copies = 0;    ///< packed copies of weights that the segment refreshes
  int shards_pending = 0;  ///< partial sums before the shard that ends with it
  /// Merges of partial sums when that shard's gradients are added, 0 where the host adds them; -1:
  /// no shard ends.
  int merges = -1;
  /// Samples of the global batch whose exchange and update it holds; -1: not a step's last segment.
  std::int64_t step_samples = -1;
  /// Where collectives of NCCL are captured before a step's last segment: the segment's place in
  /// steps of `step_samples` samples. It decides the other members, which keep their defaults then.
  int round = -1;
  int size = 0;  ///< of images, where these grow
  auto operator<=>(const GraphKey&) const = default;
};

/// A segment of a step, with the arguments of the current step.
class StepSegment {
 public:
  virtual ~StepSegment() = default;
  /// Its parts, for a segment that is not replayed; valid until the next call for any segment.
  virtual const StepPlan& plan() = 0;
  /// Runs `part`, or, within a capture, records it. `eagerly`: all of the segment runs part by
  /// part, so that each can be timed.
  virtual void run(const StepPart& part, bool eagerly) = 0;
  /// Whether all ranks have captured the segment; `captured`: this rank has. Where collectives are
  /// captured with it, all ranks replay it or none.
  virtual bool agree(bool captured) = 0;
  /// Undoes what recording its parts changed on the host. None of them has run.
  virtual void undo() = 0;
};

/// Runs all parts of `segment`, one after the other.
void run_eagerly(StepSegment& segment);

/// How a segment ran.
enum class StepWay : std::uint8_t { eager, captured, replayed };

/// The captured segments of a replica's steps; see Note [Step graphs].
class StepGraphs {
 public:
  explicit StepGraphs(Backend& backend) : backend_(backend) {}

  /// Runs `segment`. Where images of another size come, first drops the graphs of the size before
  /// (all ranks do, in the same step), and waits for what runs: a run has each size once, but for a
  /// step that it goes back to. Eagerly the first time, when libraries load, connect and reserve
  /// memory, and always where a capture has failed; the second time it captures the parts and
  /// launches the graphs; then it replays them. has_failed() says whether this device or another
  /// rank could not capture a part. Throws what the parts throw: also CommError, since a
  /// communicator that has failed in a capture cannot be used afterwards.
  StepWay run(const GraphKey& key, StepSegment& segment);
  /// Whether the last run() failed to capture a segment.
  bool has_failed() const { return has_failed_; }
  /// `why_not`: the reason of the last capture that failed.
  GraphUse use() const;

 private:
  /// One item of a replay: launches the graph or, where that is null, runs `host_part`.
  struct Captured {
    std::unique_ptr<DeviceGraph> graph;
    StepPart host_part;
  };
  struct Entry {
    std::optional<std::vector<Captured>> work;  // nullopt: not captured
    bool fails = false;                         // a capture has failed
  };

  void drop_other_sizes(int size);
  StepWay capture(Entry& entry, StepSegment& segment);
  /// The graph of `parts`, all of the device; nullopt: the capture failed, and why_not_ is the
  /// error.
  std::optional<std::unique_ptr<DeviceGraph>> try_to_capture(std::span<const StepPart> parts,
                                                             StepSegment& segment);
  /// Marks the segment as not capturable, and runs it eagerly. None of its parts has run.
  StepWay give_up(Entry& entry, StepSegment& segment);

  Backend& backend_;
  std::map<GraphKey, Entry> entries_;  // of one size of images
  std::uint64_t dropped_ = 0;          // captured ones of other sizes
  std::string why_not_;
  std::int64_t replays_ = 0;
  bool has_failed_ = false;
};

}  // namespace lockstep
