// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace lockstep {

/// How long at least one of many intervals lasted: the length of their union,
/// |[b1, e1) ∪ [b2, e2) ∪ …|. Intervals may overlap and come in any order. Keeps up
/// to kMaxApart of them; add() allocates nothing.
///
/// Where more than that lie apart, the earlier half is counted and forgotten, and of an interval
/// that comes later what lies before the end of that half is not counted. So the result is exact as
/// long as no interval comes after kMaxApart / 2 others that lie after it; otherwise it may be
/// too low, and is never too high.
class BusyTime {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxApart = std::size_t{1} << 17;

  BusyTime() { intervals_.reserve(kMaxApart); }

  /// An interval that ends before it begins is empty.
  void add(Clock::time_point begin, Clock::time_point end);
  Clock::duration length() const;

 private:
  struct Interval {
    Clock::time_point begin, end;
  };
  void make_room();
  static void unite(std::vector<Interval>& intervals);

  std::vector<Interval> intervals_;  // from resolved_until_ on, as they came
  Clock::duration resolved_{};       // length of the union before resolved_until_
  Clock::time_point resolved_until_ = Clock::time_point::min();
};

}  // namespace lockstep
