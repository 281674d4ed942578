// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/load_request.h"

namespace lockstep::data {

/// Fills micro-batches ahead of training, in the order of the requests, on worker threads with a
/// ring of slots. The bytes depend on neither the number of workers nor of ranks.
///
///   lockstep::data::Loader loader(dataset, {.micro_batch = 32}, [&](lockstep::data::LoadRequest&
///   r) {
///     return requests.next(r);  // TrainingRequests, EvaluationFeed, or your own order of samples
///   });
///   const lockstep::data::LoadedBatch batch = loader.next();
///
/// With workers -1 it measures at the start: where a whole micro-batch loads in less than
/// kInlineMicroseconds (small tables, in-memory images) the training thread does it itself, since
/// waking a thread costs as much. Otherwise it begins with one worker, adds one while training
/// waits and that makes it faster, and parks one where the others can do its work.
class Loader {
 public:
  static constexpr double kInlineMicroseconds = 200;
  static constexpr int kMaxWorkers = 64;
  static constexpr int kMaxSlots = 1024;

  /// Writes the next micro-batch into the request, whose vector keeps its memory from call to call
  /// and has room for `micro_batch` samples; false when there are no more. Called by one thread at
  /// a time, which with workers is not the training thread, and up to `slots` requests ahead. What
  /// it throws comes out of next() in its turn, and it is not called again.
  using NextRequest = std::function<bool(LoadRequest&)>;

  /// Throws ConfigError: workers, slots, held or micro_batch out of range; augmentation of samples
  /// that are not u8 [H, W, C], that could shift the whole image away, or that a source has to
  /// draw (resized_crop); images to mix that have no class each, or are one a micro-batch.
  Loader(std::shared_ptr<const Dataset> dataset,
         const LoaderOptions& options,
         NextRequest next_request);
  /// Waits for the micro-batches that workers are filling, not for those requested further on.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next micro-batch, in order; waits for it. Valid until the call number `held` from now, as
  /// a rule the next. Rethrows what a
  /// worker met (DataError); the call after that continues after it. Throws InternalError: past the
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
