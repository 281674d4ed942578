// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "core/exec/communicator.h"

/// What every communicator has to do, whatever it is made of. Collective; on any number of ranks.
namespace lockstep::testing {

/// Waits for the device that the data under test is taken to lie on; does nothing until it is set.
inline std::function<void()> wait_for_device = [] {};

void check_blocking(Communicator& comm);
/// Rank a sends 3 + a + b elements to rank b, with gaps around the blocks.
void check_all_to_all(Communicator& comm);
void check_all_gather(Communicator& comm, std::int64_t elems);
void check_all_reduce(Communicator& comm, std::int64_t elems);
void check_everything(Communicator& comm);

}  // namespace lockstep::testing
