// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// A buffer that must keep its content from step `first` to step `last` of a program, both
/// included.
struct BufferLifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  ///< one per buffer, multiples of kArenaAlignment
  std::size_t bytes = 0;
};

inline constexpr std::size_t kArenaAlignment = 256;

/// What a buffer of `bytes` takes.
constexpr std::size_t aligned_in_arena(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

/// Places buffers so that two whose lifetimes meet never share a byte. Largest first, each at the
/// lowest offset that is free for its whole life (greedy by size: Pisarchyk and Lee 2020,
/// "Efficient Memory Management for Deep Neural Net Inference", section 5). Where that takes more
/// than arena_lower_bound(), other orders are tried as well (bytes times life, life, first and last
/// step), and the smallest arena is taken. Where that is still more than a thousandth above the
/// bound, buffers that end above it move forward in the order, as often as can be done in some
/// milliseconds (squeaky wheel optimisation: Joslin and Clements 1999, section 2): first all of
/// them, then, from the best order so far, one at random (with a fixed seed). Of more than 4,096
/// buffers, every two cannot be compared: the smaller of two arenas, by the first and by the last
/// step, each made in n log n.
ArenaPlan plan_arena(std::span<const BufferLifetime> buffers);

/// Bytes that are live at each step, and 0 after the last.
std::vector<std::size_t> live_bytes(std::span<const BufferLifetime> buffers);

/// Largest sum of simultaneously live bytes: no plan for this order of steps needs less.
std::size_t arena_lower_bound(std::span<const BufferLifetime> buffers);

/// The first step at which that many bytes are live; 0 where there are no buffers.
int busiest_step(std::span<const BufferLifetime> buffers);

/// Checks every pair of buffers that share a byte again, independently of how the plan was made.
/// Throws InternalError naming the pair.
void verify(const ArenaPlan& plan, std::span<const BufferLifetime> buffers);

}  // namespace lockstep
