// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/micro_batch_search.h"

#include <algorithm>
#include <vector>

#include "parallel/batch/batch_plan.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLookedAtBeforeNone = 8;

/// Where the line through two points comes to `limit`, within [least, most]; their middle where it
/// does not rise.
std::int64_t crossing(const MicroBatchBytes& bytes,
                      std::int64_t first,
                      std::int64_t second,
                      std::uint64_t limit,
                      std::int64_t least,
                      std::int64_t most) {
  const double rise = double(bytes(second)) - double(bytes(first));
  if (rise <= 0) return least + (most - least) / 2;
  const double room = double(limit) - double(bytes(first));
  const double at = double(first) + room / rise * double(second - first);
  return std::int64_t(std::clamp(at, double(least), double(most)));
}

/// The largest in [least, most] whose bytes are within the limit; 0: none. Bytes are close to a
/// rising line there, so that few are looked at, and none that is far too large.
std::int64_t search(const MicroBatchBytes& bytes,
                    std::int64_t least,
                    std::int64_t most,
                    std::uint64_t limit) {
  if (bytes(least) > limit) return 0;
  if (least == most) return most;
  std::int64_t fits = least, too_large = least + 1;
  if (bytes(too_large) <= limit)
    too_large = crossing(bytes, least, too_large, limit, too_large, most);
  while (bytes(too_large) <= limit) {
    fits = too_large;
    if (fits == most) return most;
    too_large = std::min(most, fits + std::max<std::int64_t>(1, fits / 16));
  }
  for (int round = 0; too_large - fits > 1; ++round) {
    const std::int64_t first = fits + 1, last = too_large - 1;
    const std::int64_t guess = round % 3 == 2
                                   ? fits + (too_large - fits) / 2
                                   : crossing(bytes, fits, too_large, limit, first, last);
    // Beyond a guess that fits, the next one is the likeliest not to.
    const std::int64_t looked_at = round % 3 == 1 ? std::min(guess + 1, last) : guess;
    (bytes(looked_at) <= limit ? fits : too_large) = looked_at;
  }
  return fits;
}

/// Begins of ranges of micro-batches within which bytes rise, the last range first. Smaller ones
/// make more shards, and with twice as many one sum more waits for its place. Where a shard has
/// several micro-batches, Sharding::gradients does not divide its gradients.
std::vector<std::int64_t> begins_of_ranges(const TrainOptions& options) {
  std::vector<std::int64_t> begins{1, least_of_single_shards(options)};
  for (std::int64_t parts = 1; parts < most_derived_shards(options); parts *= 2)
    begins.push_back((options.global_batch - 1) / parts + 1);
  std::ranges::sort(begins, std::greater());
  return begins;
}

}  // namespace

std::int64_t largest_within(const MicroBatchBytes& bytes,
                            const TrainOptions& options,
                            std::int64_t most,
                            std::uint64_t limit) {
  std::int64_t last = most;
  for (const std::int64_t first : begins_of_ranges(options)) {
    if (first > last) continue;
    if (const std::int64_t largest = search(bytes, first, last, limit)) return largest;
    last = first - 1;
  }
  // Before it is said that none fits.
  std::int64_t largest = 0;
  for (std::int64_t micro = 1; micro <= std::min<std::int64_t>(most, kLookedAtBeforeNone); ++micro)
    if (bytes(micro) <= limit) largest = micro;
  return largest;
}

}  // namespace lockstep
