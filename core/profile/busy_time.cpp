// SPDX-License-Identifier: Apache-2.0
#include "core/profile/busy_time.h"

#include <algorithm>

namespace lockstep {

void BusyTime::add(Clock::time_point begin, Clock::time_point end) {
  begin = std::max(begin, resolved_until_);
  if (begin >= end) return;
  // The usual order costs no more than this.
  if (!intervals_.empty() && intervals_.back().begin <= begin && begin <= intervals_.back().end) {
    intervals_.back().end = std::max(intervals_.back().end, end);
    return;
  }
  if (intervals_.size() == kMaxApart) {
    make_room();
    return add(begin, end);
  }
  intervals_.push_back({begin, end});
}

/// Leaves disjoint intervals in ascending order.
void BusyTime::unite(std::vector<Interval>& intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  std::size_t last = 0;
  for (std::size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].begin <= intervals[last].end)
      intervals[last].end = std::max(intervals[last].end, intervals[i].end);
    else
      intervals[++last] = intervals[i];
  }
  if (!intervals.empty()) intervals.resize(last + 1);
}

void BusyTime::make_room() {
  unite(intervals_);
  if (intervals_.size() <= kMaxApart / 2) return;
  const auto kept = intervals_.end() - std::ptrdiff_t(kMaxApart / 2);
  for (auto i = intervals_.begin(); i != kept; ++i) resolved_ += i->end - i->begin;
  resolved_until_ = (kept - 1)->end;
  intervals_.erase(intervals_.begin(), kept);
}

BusyTime::Clock::duration BusyTime::length() const {
  std::vector<Interval> apart = intervals_;
  unite(apart);
  Clock::duration length = resolved_;
  for (const Interval& interval : apart) length += interval.end - interval.begin;
  return length;
}

}  // namespace lockstep
