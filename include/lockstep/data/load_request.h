// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/data/augment.h"

namespace lockstep::data {

/// One micro-batch to load: the samples of `epoch` with these indices of the dataset, in order.
struct LoadRequest {
  std::uint64_t epoch = 0;
  /// Of the first sample, in the order of the epoch's samples: keys what is drawn for a whole
  /// micro-batch, as mixup.
  std::int64_t position = 0;
  std::vector<std::int64_t> samples;
  /// Which copy of the epoch each of them is, from 0: all copies of a sample are changed by draws
  /// of their own. Empty: all are the first.
  std::vector<int> copies = {};
};

/// A loaded micro-batch: inputs [n, ...] and targets [n, ...], contiguous, as the SampleSpec says.
/// With LoaderOptions::mirror inputs are [2 n, ...]: sample n + i is the mirror image of sample i.
/// The memory is the loader's.
struct LoadedBatch {
  const std::byte* input = nullptr;
  const std::byte* target = nullptr;
  std::int64_t samples = 0;
  /// Images are mixed; the targets then are f32 [n, 2, 2]: a sample's class and its weight, then
  /// another class and its weight.
  bool mixed = false;
  bool mirrored = false;  ///< inputs are [2 n, ...]
  std::size_t input_bytes = 0, target_bytes = 0;
};

/// How a Loader works.
struct LoaderOptions {
  int workers = -1;  ///< threads; -1: as many as it takes; 0: next() loads by itself
  int slots = 4;  ///< micro-batches in flight, those in use included; workers + 1 + held at least
  std::int64_t micro_batch = 1;  ///< largest request
  std::uint64_t seed = 0;        ///< keys augmentation with epoch and sample or position
  Augmentation augmentation = {};
  bool mirror = false;  ///< the mirror images of a micro-batch follow its images, u8 [H, W, C]
  /// A sample that cannot be loaded (DataError) is replaced by the next one that can, in the order
  /// of the dataset and from its end to its start: by index alone, so the same on every rank.
  bool skip_bad_samples = false;
  /// Bad samples after which skipping gives up (DataError).
  static constexpr std::int64_t kMaxSkippedInARow = 100;
  /// Called by whichever thread loads, after each micro-batch, and each sample where samples are
  /// skipped. May be empty.
  std::function<void()> loaded = {};
  /// Micro-batches that stay valid: next() leaves the last `held` alone, the one it returns
  /// included.
  int held = 1;
  /// Gives the memory of the slots, zeroed; empty: it comes from the heap. Replica::lend_memory()
  /// sets it.
  std::function<std::shared_ptr<std::byte[]>(std::size_t bytes)> allocate = {};
};

}  // namespace lockstep::data

namespace lockstep::io {

/// Numbers of batches in the order of the data, from 0: first to last - 1.
struct BatchRange {
  std::int64_t first = 0, last = 0;
  bool operator==(const BatchRange&) const = default;
};

}  // namespace lockstep::io
