// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/exec/program.h"

namespace lockstep {

/// Writes graph and memory plan of `program` to `folder`/`name`.graph.txt and .plan.txt, creating
/// the folder. Throws EnvironmentError naming the file. For LOCKSTEP_DUMP.
void dump_program(const std::string& folder, const std::string& name, const Program& program);

/// Writes the flat space to `folder`/flat_space.txt.
void dump_flat_space(const std::string& folder, const FlatSpace& space, const Graph& graph);

}  // namespace lockstep
