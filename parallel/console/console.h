// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/console.h"

namespace lockstep {

/// Whether an mpirun of this command line (each argument with a NUL after it, as /proc has it)
/// makes lines of what its ranks print. `program` is the name of theirs, whose arguments follow.
bool mpirun_makes_lines(std::string_view command, std::string_view program);

/// The first of `parts`, two spaces between them, as many as have room in `columns`.
std::string parts_within(std::size_t columns, std::span<const std::string> parts);

}  // namespace lockstep
