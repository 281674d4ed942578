// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Lists of the call under way that have one entry for each rank or more, one of them for all
/// exchanges of a thread: simulated ranks, which are fibers of a thread, have none of their own.
/// A list is taken and filled anew for each collective, as others do so while a rank waits in it.
/// Communicators do not look at what they were handed once they have waited.
struct CallScratch {
  std::vector<CommBlock> to, from;
  std::vector<std::size_t> sizes;
  std::vector<float*> operands;
  std::vector<TreeTerm> terms;

  static CallScratch& of_thread() {
    static thread_local CallScratch scratch;
    return scratch;
  }

  /// The first `count` entries, with what was left there. Allocates where there never were as many.
  template <typename Entry>
  static std::span<Entry> take(std::vector<Entry>& list, std::size_t count) {
    if (list.size() < count) list.resize(count);
    return std::span(list).first(count);
  }
};

}  // namespace lockstep
