// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

/// A program that links replaced_new.cpp asks `on_allocation` at every operator new, on any thread,
/// and counts the blocks that are not deleted yet. Not under sanitizers, which replace it as well.
namespace lockstep::testing {

/// Called with the address that operator new returns to; false: the allocation fails
/// (std::bad_alloc). Not called for what it allocates itself. Null: nothing is asked.
using AllocationHook = bool (*)(const void* caller);
extern std::atomic<AllocationHook> on_allocation;

extern std::atomic<std::int64_t> live_blocks;

}  // namespace lockstep::testing
