// SPDX-License-Identifier: Apache-2.0
#include "core/plan/arena.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "core/base/check.h"
#include "core/base/random.h"

namespace lockstep {
namespace {

/// With more buffers, every two are compared no longer: tens of milliseconds.
constexpr std::size_t kMaxCompared = 4'096;

/// Where a buffer lies, and when: steps first to last, bytes begin to end.
struct Placed {
  int first = 0, last = 0;
  std::size_t begin = 0, end = 0;
};

bool meet(const BufferLifetime& a, const Placed& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Places buffers in that order, each at the lowest offset that is free for its whole life. Gives
/// up, with an arena of more than `most` bytes, as soon as it is that large.
ArenaPlan place(std::span<const BufferLifetime> buffers,
                const std::vector<std::size_t>& order,
                std::size_t most = SIZE_MAX) {
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<Placed> placed;  // sorted by begin
  placed.reserve(buffers.size());
  for (std::size_t index : order) {
    const BufferLifetime& buffer = buffers[index];
    if (buffer.bytes == 0) continue;
    const std::size_t bytes = aligned_in_arena(buffer.bytes);
    std::size_t offset = 0;
    for (const Placed& other : placed) {
      if (!meet(buffer, other)) continue;
      if (other.begin >= offset + bytes) break;
      offset = std::max(offset, other.end);
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    if (plan.bytes > most) return plan;
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &Placed::begin),
                  {buffer.first, buffer.last, offset, offset + bytes});
  }
  return plan;
}

/// Free ranges of an arena without end.
class FreeRanges {
 public:
  FreeRanges() { add(0, SIZE_MAX); }

  /// The lowest offset with `bytes` free bytes, which are free no longer. Ranges have few different
  /// sizes, as buffers have.
  std::size_t take(std::size_t bytes) {
    std::size_t begin = SIZE_MAX;
    for (auto same = begins_.lower_bound(bytes); same != begins_.end(); ++same)
      begin = std::min(begin, *same->second.begin());
    const std::size_t end = ends_.at(begin);
    remove(begin, end);
    if (begin + bytes < end) add(begin + bytes, end);
    return begin;
  }

  void give_back(std::size_t begin, std::size_t end) {
    const auto behind = ends_.find(end);
    if (behind != ends_.end()) {
      end = behind->second;
      remove(behind->first, end);
    }
    const auto after = ends_.lower_bound(begin);
    if (after != ends_.begin())
      if (const auto [before, before_end] = *std::prev(after); before_end == begin) {
        begin = before;
        remove(before, before_end);
      }
    add(begin, end);
  }

 private:
  void add(std::size_t begin, std::size_t end) {
    ends_.emplace(begin, end);
    begins_[end - begin].insert(begin);
  }
  void remove(std::size_t begin, std::size_t end) {
    ends_.erase(begin);
    const auto same = begins_.find(end - begin);
    same->second.erase(begin);
    if (same->second.empty()) begins_.erase(same);
  }

  std::map<std::size_t, std::size_t> ends_;              // by begin
  std::map<std::size_t, std::set<std::size_t>> begins_;  // by size
};

/// What place() makes of buffers ordered by their first step, or, `backward` in time, by their last
/// one with the latest first; without comparing every two.
ArenaPlan place_in_time(std::span<const BufferLifetime> buffers, bool backward) {
  const auto begins = [&](std::size_t i) { return backward ? -buffers[i].last : buffers[i].first; };
  const auto ends = [&](std::size_t i) { return backward ? -buffers[i].first : buffers[i].last; };
  std::vector<std::size_t> starting(buffers.size());
  std::iota(starting.begin(), starting.end(), std::size_t{0});
  std::erase_if(starting, [&](std::size_t i) { return buffers[i].bytes == 0; });
  std::vector<std::size_t> ending = starting;
  std::ranges::stable_sort(starting, {}, begins);
  std::ranges::stable_sort(ending, {}, ends);
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  FreeRanges free;
  auto over = ending.begin();
  for (const std::size_t index : starting) {
    for (; ends(*over) < begins(index); ++over)
      free.give_back(plan.offsets[*over],
                     plan.offsets[*over] + aligned_in_arena(buffers[*over].bytes));
    const std::size_t bytes = aligned_in_arena(buffers[index].bytes);
    plan.offsets[index] = free.take(bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[index] + bytes);
  }
  return plan;
}

/// Buffers with the largest `weight` first, equal ones in their order.
template <typename Weight>
std::vector<std::size_t> largest_first(std::span<const BufferLifetime> buffers, Weight weight) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, std::greater<>(), [&](std::size_t i) { return weight(buffers[i]); });
  return order;
}

/// Looks for an arena near `least` bytes by placing the buffers again and again in orders that come
/// of the last one. `best`, which came of `order`, becomes the smallest arena met.
class ArenaSearch {
 public:
  ArenaSearch(std::span<const BufferLifetime> buffers,
              std::vector<std::size_t> order,
              std::size_t least,
              ArenaPlan& best)
      : buffers_(buffers), order_(std::move(order)), least_(least), best_(best) {}

  void run() {
    const std::size_t affordable = kMaxComparisons / (buffers_.size() * buffers_.size() + 1);
    move_all(std::min(kMaxPlacements / 10, affordable / 4));
    move_one(std::min(kMaxPlacements, affordable));
  }

 private:
  /// Comparisons of two buffers and placements of all: some milliseconds.
  static constexpr std::size_t kMaxComparisons = 16'000'000;
  static constexpr std::size_t kMaxPlacements = 4'000;

  bool is_near() const { return best_.bytes <= least_ + least_ / 1000; }
  bool sticks_out(const ArenaPlan& plan, std::size_t buffer) const {
    return plan.offsets[buffer] + aligned_in_arena(buffers_[buffer].bytes) > least_;
  }

  /// All buffers that stick out go half way to the front, whatever comes of it.
  void move_all(std::size_t placements) {
    std::vector<std::size_t> order = order_;
    ArenaPlan last = best_;
    for (std::size_t n = 0; n < placements && !is_near(); ++n) {
      for (std::size_t i = 1; i < order.size(); ++i) {
        const auto from = order.begin() + std::ptrdiff_t(i);
        if (sticks_out(last, *from))
          std::rotate(order.begin() + std::ptrdiff_t(i / 2), from, from + 1);
      }
      last = place(buffers_, order);
      if (last.bytes >= best_.bytes) continue;
      best_ = last;
      order_ = order;
    }
  }

  /// One of them goes to any earlier place, now and then two others change places; what makes the
  /// arena larger is taken back.
  void move_one(std::size_t placements) {
    RandomStream random(0, 0);  // the same on every rank
    const auto below = [&](std::size_t bound) { return random.below(std::uint32_t(bound)); };
    for (std::size_t n = 0; n < placements && !is_near(); ++n) {
      std::vector<std::size_t> squeaky;  // places in the order; what comes first cannot stick out
      for (std::size_t i = 1; i < order_.size(); ++i)
        if (sticks_out(best_, order_[i])) squeaky.push_back(i);
      std::vector<std::size_t> order = order_;
      const auto from = order.begin() + std::ptrdiff_t(squeaky[below(squeaky.size())]);
      std::rotate(order.begin() + below(std::size_t(from - order.begin())), from, from + 1);
      if (below(4) == 0) std::swap(order[below(order.size())], order[below(order.size())]);
      ArenaPlan plan = place(buffers_, order, best_.bytes);
      if (plan.bytes > best_.bytes) continue;
      best_ = std::move(plan);
      order_ = std::move(order);
    }
  }

  std::span<const BufferLifetime> buffers_;
  std::vector<std::size_t> order_;  // that best_ came of
  const std::size_t least_;
  ArenaPlan& best_;
};

}  // namespace

ArenaPlan plan_arena(std::span<const BufferLifetime> buffers) {
  if (buffers.size() > kMaxCompared) {
    ArenaPlan forward = place_in_time(buffers, false), backward = place_in_time(buffers, true);
    return backward.bytes < forward.bytes ? backward : forward;
  }
  const auto steps = [](const BufferLifetime& b) { return double(b.last - b.first + 1); };
  std::vector<std::size_t> order =
      largest_first(buffers, [](const BufferLifetime& b) { return b.bytes; });
  ArenaPlan best = place(buffers, order);
  const std::size_t least = arena_lower_bound(buffers);
  const auto improve = [&](auto weight) {
    if (best.bytes == least) return;
    std::vector<std::size_t> other_order = largest_first(buffers, weight);
    ArenaPlan other = place(buffers, other_order, best.bytes - 1);
    if (other.bytes >= best.bytes) return;
    best = std::move(other);
    order = std::move(other_order);
  };
  improve([&](const BufferLifetime& b) { return double(b.bytes) * steps(b); });
  improve(steps);
  improve([](const BufferLifetime& b) { return -double(b.first); });
  improve([](const BufferLifetime& b) { return double(b.last); });
  ArenaSearch(buffers, std::move(order), least, best).run();
  return best;
}

std::vector<std::size_t> live_bytes(std::span<const BufferLifetime> buffers) {
  int steps = 0;
  for (const BufferLifetime& b : buffers) steps = std::max(steps, b.last + 1);
  std::vector<std::size_t> live(std::size_t(steps) + 1, 0);
  for (const BufferLifetime& b : buffers) {
    live[std::size_t(b.first)] += aligned_in_arena(b.bytes);
    live[std::size_t(b.last) + 1] -= aligned_in_arena(b.bytes);
  }
  // Differences may wrap below 0, their sums do not.
  std::inclusive_scan(live.begin(), live.end(), live.begin());
  return live;
}

std::size_t arena_lower_bound(std::span<const BufferLifetime> buffers) {
  return std::ranges::max(live_bytes(buffers));
}

int busiest_step(std::span<const BufferLifetime> buffers) {
  const std::vector<std::size_t> live = live_bytes(buffers);
  return int(std::ranges::max_element(live) - live.begin());
}

void verify(const ArenaPlan& plan, std::span<const BufferLifetime> buffers) {
  std::vector<std::size_t> starting;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    LOCKSTEP_CHECK(
        plan.offsets[i] % kArenaAlignment == 0 && plan.offsets[i] + buffers[i].bytes <= plan.bytes,
        InternalError,
        "arena: buffer {} lies outside the arena",
        i);
    if (buffers[i].bytes > 0) starting.push_back(i);
  }
  std::vector<std::size_t> ending = starting;
  std::ranges::sort(starting, {}, [&](std::size_t i) { return buffers[i].first; });
  std::ranges::sort(ending, {}, [&](std::size_t i) { return buffers[i].last; });
  std::map<std::size_t, std::size_t> alive;  // buffer by offset: each ends before the next begins
  const auto expect_apart = [&](std::size_t lower, std::size_t upper) {
    LOCKSTEP_CHECK(plan.offsets[lower] + buffers[lower].bytes <= plan.offsets[upper],
                   InternalError,
                   "arena: buffers {} and {} are alive together and overlap",
                   std::min(lower, upper),
                   std::max(lower, upper));
  };
  auto over = ending.begin();
  for (const std::size_t index : starting) {
    for (; buffers[*over].last < buffers[index].first; ++over) alive.erase(plan.offsets[*over]);
    const auto [at, is_new] = alive.try_emplace(plan.offsets[index], index);
    if (!is_new) expect_apart(index, at->second);
    if (at != alive.begin()) expect_apart(std::prev(at)->second, index);
    if (std::next(at) != alive.end()) expect_apart(index, std::next(at)->second);
  }
}

}  // namespace lockstep
