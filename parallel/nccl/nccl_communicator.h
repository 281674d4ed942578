// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Whether this was built with NCCL.
bool has_nccl();

struct NcclOptions {
  double join_s = 60;        ///< the longest that ranks wait for each other to join
  std::string library = {};  ///< to be opened instead of libnccl.so.2
};

/// A communicator for device memory by NCCL, on the backend's stream in use: in_stream_order().
/// What is in host memory passes through to `host`, as do barrier() and abort(). Which of both it
/// is say the pointers that are not null: a rank with nothing to send or receive still names one.
/// Collective over `host`, as is split(); not while a graph is captured. `host` and
/// `backend` outlive it and its parts; graphs with its collectives do not. The device has
/// been chosen in the calling thread.
///
/// A thread looks at NCCL every tenth of a second. Once a communicator has failed, the device gives
/// up what it waits for, in the parts as well, and every collective on device memory and
/// require_healthy() throw CommError.
///
/// Throws EnvironmentError, the same on all ranks: this was built without NCCL, or on some rank it
/// cannot be opened, is of an unfit or another version, cannot start, or does not reach the others.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host,
                                                     Backend& backend,
                                                     const NcclOptions& options = {});

/// "2.28.9", of the library that is opened. Empty where this was built without NCCL. Throws
/// EnvironmentError: it cannot be opened, or is not the one that this was built for.
std::string nccl_version();

}  // namespace lockstep
