// SPDX-License-Identifier: Apache-2.0
#include "core/plan/arena.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "core/base/random.h"

namespace lockstep {
namespace {

bool meet(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// At each step, and 0 behind the last.
std::vector<std::size_t> live_bytes(std::span<const BufferLifetime> buffers) {
  int steps = 0;
  for (const BufferLifetime& b : buffers) steps = std::max(steps, b.last + 1);
  std::vector<std::size_t> live(std::size_t(steps) + 1, 0);
  for (const BufferLifetime& b : buffers)
    for (int i = b.first; i <= b.last; ++i) live[std::size_t(i)] += aligned_in_arena(b.bytes);
  return live;
}

}  // namespace

namespace {

/// Places buffers in that order, each at the lowest offset that is free for its whole life.
ArenaPlan place(std::span<const BufferLifetime> buffers, const std::vector<std::size_t>& order) {
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> placed;  // sorted by offset
  for (std::size_t index : order) {
    const BufferLifetime& buffer = buffers[index];
    if (buffer.bytes == 0) continue;
    std::size_t offset = 0;
    for (std::size_t other : placed) {
      if (!meet(buffer, buffers[other])) continue;
      if (plan.offsets[other] >= offset + aligned_in_arena(buffer.bytes)) break;
      offset = std::max(offset, plan.offsets[other] + aligned_in_arena(buffers[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + aligned_in_arena(buffer.bytes));
    const auto position = std::ranges::upper_bound(
        placed, offset, {}, [&](std::size_t other) { return plan.offsets[other]; });
    placed.insert(position, index);
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

/// Comparisons of two buffers that looking for a smaller arena may take: some milliseconds.
constexpr std::size_t kMostComparisons = 16'000'000;
constexpr std::size_t kMostPlacements = 4'000;

/// Places buffers again and again, each time with one of those that ended above `least` at an
/// earlier place in `order`, now and then with two others exchanged; a change that makes the arena
/// larger is taken back. `best`, which came of `order`, becomes the smallest arena met.
void move_squeaky_wheels(std::span<const BufferLifetime> buffers,
                         std::vector<std::size_t> order,
                         std::size_t least,
                         ArenaPlan& best) {
  const std::size_t comparisons = buffers.size() * buffers.size() + 1;
  const std::size_t placements = std::min(kMostPlacements, kMostComparisons / comparisons);
  RandomStream random(0, 0);  // the same for every rank
  const auto below = [&](std::size_t bound) { return random.below(std::uint32_t(bound)); };
  for (std::size_t n = 0; n < placements && best.bytes > least + least / 100; ++n) {
    std::vector<std::size_t> squeaky;  // places in the order; the first buffer starts at 0
    for (std::size_t i = 1; i < order.size(); ++i)
      if (best.offsets[order[i]] + aligned_in_arena(buffers[order[i]].bytes) > least)
        squeaky.push_back(i);
    if (squeaky.empty()) return;
    std::vector<std::size_t> other = order;
    const auto from = other.begin() + std::ptrdiff_t(squeaky[below(squeaky.size())]);
    std::rotate(other.begin() + below(std::size_t(from - other.begin())), from, from + 1);
    if (below(4) == 0) std::swap(other[below(other.size())], other[below(other.size())]);
    ArenaPlan plan = place(buffers, other);
    if (plan.bytes > best.bytes) continue;
    best = std::move(plan);
    order = std::move(other);
  }
}

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
    ArenaPlan other = place(buffers, other_order);
    if (other.bytes >= best.bytes) return;
    best = std::move(other);
    order = std::move(other_order);
  };
  improve([&](const BufferLifetime& b) { return double(b.bytes) * steps(b); });
  improve(steps);
  improve([](const BufferLifetime& b) { return -double(b.first); });
  improve([](const BufferLifetime& b) { return double(b.last); });
  move_squeaky_wheels(buffers, std::move(order), least, best);
  return best;
}

std::size_t arena_lower_bound(std::span<const BufferLifetime> buffers) {
  return std::ranges::max(live_bytes(buffers));
}

int busiest_step(std::span<const BufferLifetime> buffers) {
  const std::vector<std::size_t> live = live_bytes(buffers);
  return int(std::ranges::max_element(live) - live.begin());
}

void verify(const ArenaPlan& plan, std::span<const BufferLifetime> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    LOCKSTEP_CHECK(
        plan.offsets[i] % kArenaAlignment == 0 && plan.offsets[i] + buffers[i].bytes <= plan.bytes,
        InternalError,
        "arena: buffer {} lies outside the arena",
        i);
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
      LOCKSTEP_CHECK(
          apart || !meet(buffers[i], buffers[j]) || buffers[i].bytes == 0 || buffers[j].bytes == 0,
          InternalError,
          "arena: buffers {} and {} are alive together and overlap",
          j,
          i);
    }
  }
}

}  // namespace lockstep
