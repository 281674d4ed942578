// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/communicator.h"

namespace lockstep::testing {

/// All ranks of the test program; see mpi_main.cpp.
Communicator& mpi_world();

}  // namespace lockstep::testing
