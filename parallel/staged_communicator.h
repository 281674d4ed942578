// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Whether the network reads and writes the memory of devices itself: in collectives that block.
/// (Open MPI 4 and before do so in no others.)
enum class DeviceReach : std::uint8_t { none, blocking };

/// A communicator for a device: what is in its memory travels through pinned buffers of the host,
/// which grow to the largest message and are kept; or, with DeviceReach::blocking, is handed to
/// `host` by functions without `start_`, once the device has done what it was asked for. What is in
/// host memory passes straight through. `host` and `backend` outlive it.
std::unique_ptr<Communicator> make_staged_communicator(Communicator& host,
                                                       Backend& backend,
                                                       DeviceReach reach = DeviceReach::none);

}  // namespace lockstep
