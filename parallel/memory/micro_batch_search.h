// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/train_options.h"

namespace lockstep {

/// Bytes that training takes, by the samples of a micro-batch.
using MicroBatchBytes = std::function<std::size_t(std::int64_t micro_batch)>;

/// The largest micro-batch of at most `most` samples whose bytes are within `limit`; 0: none of
/// those looked at. `options` say where bytes need not rise: with more shards, or where shards have
/// several micro-batches. `bytes` is asked for few sizes, and for none that is far too large.
std::int64_t largest_within(const MicroBatchBytes& bytes,
                            const TrainOptions& options,
                            std::int64_t most,
                            std::uint64_t limit);

}  // namespace lockstep
