// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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
  int workers = -1;              ///< -1: auto; 0: the training thread loads by itself
  int slots = 4;                 ///< micro-batches in flight, the one in use included
  std::int64_t micro_batch = 1;  ///< largest request
  std::uint64_t seed = 0;        ///< keys augmentation with (seed, epoch, sample)
  Augmentation augmentation = {};
};

/// Fills micro-batches ahead of training, in the order of the requests, on worker threads with a
/// ring of slots. The bytes depend on neither the number of workers nor of ranks.
///
/// `auto` measures at the start: where a whole micro-batch loads in less than
/// kInlineMicroseconds (small tables, in-memory images) the training thread does it itself, since
/// waking a thread costs as much; otherwise one worker.
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

  /// Throws ConfigError: workers, slots or micro_batch out of range; augmentation of samples that
  /// are not u8 [H, W, C], or that could shift the whole picture away.
  Loader(std::shared_ptr<const Dataset> dataset,
         const LoaderOptions& options,
         NextRequest next_request);
  /// Waits for the micro-batches that workers are filling, not for those requested further on.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next micro-batch, in order; waits for it. Valid until the next call. Rethrows what a
  /// worker met (DataError); the call after that goes on behind it. Throws InternalError: past the
  /// end, a request that is empty, larger than micro_batch, or names samples the dataset lacks.
  /// Allocates nothing when steady. Called by one thread.
  LoadedBatch next();

  /// Worker threads, 0 where next() loads by itself.
  int workers() const;
  /// Seconds that next() has waited (or loaded inline) since construction.
  double waited_seconds() const;
  /// Bytes of the slots.
  std::size_t memory_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
