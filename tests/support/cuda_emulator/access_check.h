// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tests/support/cuda_emulator/access_record.h"
#include "tests/support/cuda_emulator/vector_types.h"

/// What is wrong with accesses to memory; see Note [How the emulator works].
namespace lockstep::emulator {

/// Whether this build sees them: not where a sanitizer does its own work.
bool accesses_are_checked();

void start_launch();
/// The block's shared memory has so many bytes, which are NaN and which are not written.
void start_block(uint3 index, std::size_t shared_bytes);

/// Called for each access of a running kernel. Does not return if something is wrong with it.
/// `aligned`: the instruction asks for an address that is a multiple of `bytes`.
void check_access(const void* address, std::size_t bytes, Access access, bool aligned);

}  // namespace lockstep::emulator
