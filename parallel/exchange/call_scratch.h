// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
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

/// The lists of a sum, which has them for itself as long as this lives: a simulated device may let
/// other ranks of the thread go on while it adds. A thread that has one sum at a time has one pair
/// of lists, and allocates none after the first sum of each size.
class SumLists {
 public:
  SumLists() {
    Spare& spare = of_thread();
    if (spare.lists.empty()) {
      spare.lists.reserve(++spare.made);
      own_ = std::make_unique<Lists>();
    } else {
      own_ = std::move(spare.lists.back());
      spare.lists.pop_back();
    }
  }
  ~SumLists() { of_thread().lists.push_back(std::move(own_)); }
  SumLists(const SumLists&) = delete;
  SumLists& operator=(const SumLists&) = delete;

  std::span<float*> operands(std::size_t count) { return CallScratch::take(own_->operands, count); }
  std::span<TreeTerm> terms(std::size_t count) { return CallScratch::take(own_->terms, count); }

 private:
  struct Lists {
    std::vector<float*> operands;
    std::vector<TreeTerm> terms;
  };
  struct Spare {
    std::vector<std::unique_ptr<Lists>> lists;
    std::size_t made = 0;
  };
  static Spare& of_thread() {
    static thread_local Spare spare;
    return spare;
  }

  std::unique_ptr<Lists> own_;
};

}  // namespace lockstep
