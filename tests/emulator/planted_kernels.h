// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/exec/kernel.h"

/// Kernels with one mistake each, which `bug` plants; without it they are right. Each runs a launch
/// of the name in its comment, throws what cuda::check() throws, and returns what was written.
namespace lockstep::test {

inline constexpr int kThreads = 64;

/// "copy": kThreads - 2 elements, whose last two threads have no work; the bug has them write too.
std::vector<float> copy_past_the_end(bool bug);
/// "copy": the bug hands it a pointer to the host.
std::vector<float> copy_from_host(bool bug);
/// "shared": the bug uses one element more than the launch asked for.
std::vector<float> past_shared_memory(bool bug);
/// "rotate": in two blocks thread t gets t + 1 through shared memory; the bug leaves the barrier
/// out that orders the writes before the reads.
std::vector<float> rotate_without_barrier(bool bug);
/// "reuse": two rotations; the bug skips the barrier between reading the first and writing the
/// second.
std::vector<float> reuse_without_barrier(bool bug);
/// "warp_rotate": as rotate within warps, ordered by __syncwarp.
std::vector<float> rotate_without_syncwarp(bool bug);
/// "uninitialised": reads shared memory that the bug does not let it write before.
std::vector<float> read_unwritten_shared(bool bug);
/// "branches": the bug has the two halves of the block wait at two barriers.
std::vector<float> barrier_in_branches(bool bug);
/// "early_return": the bug has threads leave before a barrier.
std::vector<float> return_before_barrier(bool bug);
/// "early_lane": the bug has lanes leave before a shuffle.
std::vector<float> return_before_shuffle(bool bug);
/// "other_mask": a shuffle among half a warp; the bug has it read a lane of the other half.
std::vector<float> shuffle_beyond_mask(bool bug);
/// "packs": 4 floats at a time, doubled; the bug moves them by 4.
std::vector<float> unaligned_packs(bool bug);
/// "matrices": 8 rows of 8 bf16 from shared memory by load_matrices(); the bug has the rows begin
/// between multiples of 16 bytes.
std::vector<float> unaligned_matrices(bool bug);
/// "copies": 4 floats at a time to shared memory by AsyncCopies and back; the bug has them come
/// from between multiples of 16 bytes, where the last ones do not exist.
std::vector<float> unaligned_copies(bool bug);
/// "sum_up": every block adds to a counter; the bug does it without an atomic.
std::vector<float> count_blocks(bool bug);
/// "hand_over": the bug has a block read what another one wrote.
std::vector<float> read_of_another_block(bool bug);
/// "sums": sums over warps and blocks by shuffles, ballots and counting barriers, as the functions
/// of CUDA give them.
std::vector<float> sums();
/// "shape": a launch that does nothing.
void launch_shape(unsigned grid_y, unsigned threads, std::size_t shared_bytes, bool opt_in);

/// Scale by `factor`; the bug leaves the last element out.
std::unique_ptr<Kernel> make_incomplete_scale(const KernelSpec& spec, bool bug);

}  // namespace lockstep::test
