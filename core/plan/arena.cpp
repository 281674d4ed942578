// SPDX-License-Identifier: Apache-2.0
#include "core/plan/arena.h"

#include <algorithm>
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

ArenaPlan plan_arena(std::span<const BufferLifetime> buffers) {
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(
      by_size, [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  std::vector<std::size_t> placed;  // sorted by offset
  for (std::size_t index : by_size) {
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
