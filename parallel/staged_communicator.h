// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// A communicator for a device whose memory the network does not reach: what is in device memory
/// travels through pinned buffers of the host, which grow to the largest message and are kept. What
/// is in host memory passes straight through. `host` and `backend` outlive it.
std::unique_ptr<Communicator> make_staged_communicator(Communicator& host, Backend& backend);

}  // namespace lockstep
