// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Whether the network reads and writes the memory of devices itself, in all collectives but a
/// started all-reduce, up to 1 GiB a rank: a CUDA-aware Open MPI 4 whose exchanges are
/// MpiExchange::messages.
enum class DeviceReach : std::uint8_t { none, all_but_all_reduce };

/// A communicator for a device: what is in its memory travels through pinned buffers of the host,
/// which grow to the largest message and are kept; or, where `reach` says so, is handed to `host`
/// once the device has done what was asked of the stream in use. Started collectives wait for that
/// in test(), not where they are started: see StagedRequest. What is in host memory passes straight
/// through. `host` and `backend` outlive it.
std::unique_ptr<Communicator> make_staged_communicator(Communicator& host,
                                                       Backend& backend,
                                                       DeviceReach reach = DeviceReach::none);

}  // namespace lockstep
