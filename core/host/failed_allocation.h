// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

/// Remembers the bytes that an operator new of this program failed to allocate; allocates nothing.
void note_failed_allocation(std::size_t bytes);

/// ": 4096 bytes were asked for; of its limit of 8192 bytes of address space the process uses 8000;
/// the host has 123 bytes available", or what of that is known. Empty where memory does not even
/// suffice for that.
std::string failed_allocation_text() noexcept;

}  // namespace lockstep
