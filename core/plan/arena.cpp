// SPDX-License-Identifier: Apache-2.0
#include "core/plan/arena.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/base/error.h"

namespace lockstep {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool meet(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// At each step, and 0 behind the last.
std::vector<std::size_t> live_bytes(std::span<const BufferLifetime> buffers) {
  int steps = 0;
  for (const BufferLifetime& b : buffers) steps = std::max(steps, b.last + 1);
  std::vector<std::size_t> live(std::size_t(steps) + 1, 0);
  for (const BufferLifetime& b : buffers)
    for (int i = b.first; i <= b.last; ++i) live[std::size_t(i)] += aligned(b.bytes);
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
      if (plan.offsets[other] >= offset + aligned(buffer.bytes)) break;
      offset = std::max(offset, plan.offsets[other] + aligned(buffers[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + aligned(buffer.bytes));
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

}  // namespace

ArenaPlan plan_arena(std::span<const BufferLifetime> buffers) {
  const auto steps = [](const BufferLifetime& b) { return double(b.last - b.first + 1); };
  ArenaPlan best =
      place(buffers, largest_first(buffers, [](const BufferLifetime& b) { return b.bytes; }));
  const std::size_t least = arena_lower_bound(buffers);
  const auto improve = [&](auto weight) {
    if (best.bytes == least) return;
    ArenaPlan other = place(buffers, largest_first(buffers, weight));
    if (other.bytes < best.bytes) best = std::move(other);
  };
  improve([&](const BufferLifetime& b) { return double(b.bytes) * steps(b); });
  improve(steps);
  improve([](const BufferLifetime& b) { return -double(b.first); });
  improve([](const BufferLifetime& b) { return double(b.last); });
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
