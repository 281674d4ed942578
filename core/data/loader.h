// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/data/augment.h"
#include "core/data/dataset.h"

namespace lockstep::data {

/// One micro-batch to load: `samples` are dataset indices in order.
struct LoadRequest {
  std::uint64_t epoch = 0;
  std::vector<std::int64_t> samples;
};

/// A filled slot: inputs [n, ...] and targets [n, ...] contiguous, as the SampleSpec says.
struct LoadedBatch {
  const std::byte* input = nullptr;
  const std::byte* target = nullptr;
  std::int64_t samples = 0;
};

struct LoaderOptions {
  int workers = -1;  ///< -1: auto; 0: the training thread loads by itself
  int slots = 4;  ///< micro-batches in flight, those in use included; workers + 1 + held at least
  std::int64_t micro_batch = 1;  ///< largest request
  std::uint64_t seed = 0;        ///< keys augmentation with (seed, epoch, sample)
  Augmentation augmentation = {};
  /// A sample that cannot be loaded (DataError) is replaced by the next one that can, in the order
  /// of the dataset and from its end to its start: by index alone, so the same on every rank.
  bool skip_bad_samples = false;
  /// Called by whichever thread loads, after each micro-batch, and each sample where samples are
  /// skipped. May be empty.
  std::function<void()> loaded = {};
  /// Micro-batches that stay valid: next() leaves the last `held` alone, the one it returns
  /// included.
  int held = 1;
  /// Gives the slots' memory, zeroed; empty: it comes from the heap. See Replica::lend_memory().
  std::function<std::shared_ptr<std::byte[]>(std::size_t bytes)> allocate = {};
};

/// Fills micro-batches ahead of training, in the order of the requests, on worker threads with a
/// ring of slots. The bytes depend on neither the number of workers nor of ranks.
///
/// `auto` measures at the start: where a whole micro-batch loads in less than
/// kInlineMicroseconds (small tables, in-memory images) the training thread does it itself, since
/// waking a thread costs as much. Otherwise it begins with one worker, adds one while training
/// waits and that makes it faster, and parks one where the others can do its work; see
/// WorkerControl.
class Loader {
 public:
  static constexpr double kInlineMicroseconds = 200;
  static constexpr int kMaxWorkers = 64;
  /// Bad samples after which skipping gives up (DataError).
  static constexpr std::int64_t kMostSkippedInARow = 100;
  static constexpr int kMaxSlots = 1024;

  /// Writes the next micro-batch into the request, whose vector keeps its memory from call to call
  /// and has room for `micro_batch` samples; false when there are no more. Called by one thread at
  /// a time, which with workers is not the training thread, and up to `slots` requests ahead. What
  /// it throws comes out of next() in its turn, and it is not called again.
  using NextRequest = std::function<bool(LoadRequest&)>;

  /// Throws ConfigError: workers, slots, held or micro_batch out of range; augmentation of samples
  /// that are not u8 [H, W, C], that could shift the whole picture away, or that a source has to
  /// draw (resized_crop).
  Loader(std::shared_ptr<const Dataset> dataset,
         const LoaderOptions& options,
         NextRequest next_request);
  /// Waits for the micro-batches that workers are filling, not for those requested further on.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next micro-batch, in order; waits for it. Valid until the call number `held` from now, as
  /// a rule the next. Rethrows what a
  /// worker met (DataError); the call after that goes on behind it. Throws InternalError: past the
  /// end, a request that is empty, larger than micro_batch, or names samples the dataset lacks.
  /// Allocates nothing when steady. Called by one thread.
  LoadedBatch next();

  /// Worker threads at work, 0 where next() loads by itself.
  int workers() const;
  /// What those could deliver if nothing held them up: the measured rate of one, times them. 0
  /// before the first micro-batch is complete. Where next() loads by itself, by some of them.
  double samples_per_second() const;
  /// Samples that others took the place of in the micro-batches that next() has returned, each
  /// once, ascending; and what was wrong with the first that was met. Asked for between calls of
  /// next().
  const std::set<std::int64_t>& skipped_samples() const;
  std::string first_skipped() const;
  /// Threads that may load at the same time with these options, counted as memory_bytes() does.
  static int max_threads(const LoaderOptions& options);
  /// Bytes of the slots.
  std::size_t memory_bytes() const;
  /// Those that a loader of this data with these options would have; where the number of workers is
  /// left open, the most that it may have on this machine. Loads nothing.
  static std::size_t memory_bytes(const Dataset& dataset, const LoaderOptions& options);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
