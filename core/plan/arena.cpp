// SPDX-License-Identifier: Apache-2.0
#include "core/plan/arena.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "core/base/random.h"

namespace lockstep {
namespace {

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
    const std::size_t affordable = kMostComparisons / (buffers_.size() * buffers_.size() + 1);
    move_all(std::min(kMostPlacements / 10, affordable / 4));
    move_one(std::min(kMostPlacements, affordable));
  }

 private:
  /// Comparisons of two buffers and placements of all: some milliseconds.
  static constexpr std::size_t kMostComparisons = 16'000'000;
  static constexpr std::size_t kMostPlacements = 4'000;

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
  for (const BufferLifetime& b : buffers)
    for (int i = b.first; i <= b.last; ++i) live[std::size_t(i)] += aligned_in_arena(b.bytes);
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
  std::vector<std::size_t> by_offset;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    LOCKSTEP_CHECK(
        plan.offsets[i] % kArenaAlignment == 0 && plan.offsets[i] + buffers[i].bytes <= plan.bytes,
        InternalError,
        "arena: buffer {} lies outside the arena",
        i);
    if (buffers[i].bytes > 0) by_offset.push_back(i);
  }
  std::ranges::sort(by_offset, {}, [&](std::size_t i) { return plan.offsets[i]; });
  for (std::size_t n = 0; n < by_offset.size(); ++n) {
    const std::size_t i = by_offset[n];
    const std::size_t end = plan.offsets[i] + buffers[i].bytes;
    for (std::size_t m = n + 1; m < by_offset.size() && plan.offsets[by_offset[m]] < end; ++m) {
      const std::size_t j = by_offset[m];
      LOCKSTEP_CHECK(buffers[i].last < buffers[j].first || buffers[j].last < buffers[i].first,
                     InternalError,
                     "arena: buffers {} and {} are alive together and overlap",
                     std::min(i, j),
                     std::max(i, j));
    }
  }
}

}  // namespace lockstep
