// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Whether this was built with NCCL.
bool has_nccl();

/// Sets the variables of this process that NCCL reads when it is first used, with which the
/// communicators here work. To be called before other threads run, which may read the environment.
///
/// Note [Order of communicators]. Several communicators work on one device, on streams of their
/// own. Their kernels may start in another order on other ranks and then wait for each other for
/// ever. With NCCL_LAUNCH_ORDER_IMPLICIT=1 each device starts them in the order in which they were
/// asked for. Without it nothing here is safe, so that a user's own value does not stand.
///
/// `apart`: NCCL, which takes no two ranks on one GPU of a host, takes each rank for one on a host
/// of its own; the rank's number. They then talk through the network.
void set_nccl_variables(std::optional<int> apart = {});

struct NcclOptions {
  double join_s = 60;        ///< the longest that ranks wait for each other to join
  std::string library = {};  ///< to be opened instead of libnccl.so.2
  /// One rank in so many is a root, at which some of the ranks meet when they join. A root takes
  /// them one after the other, and NCCL has them come in turns where a root has more.
  int ranks_per_root = 256;
};

/// A communicator for device memory by NCCL, on the backend's stream in use: in_stream_order().
/// What is in host memory passes through to `host`, as do barrier() and abort(). Which of both it
/// is say the pointers that are not null: a rank with nothing to send or receive still names one.
/// Collective over `host`, as is split(); not while a graph is captured. split() waits for the
/// compute stream, after which no collective of it may be under way on another. `host` and
/// `backend` outlive it and its parts; graphs with its collectives do not. The device has
/// been chosen in the calling thread.
///
/// The ranks find each other over a rank's address once, when it is made: parts come from it by
/// ncclCommSplit(), over the connections that there are.
///
/// A thread looks at NCCL every tenth of a second. Once a communicator has failed, the device gives
/// up what it waits for, in the parts as well, and every collective on device memory and
/// require_healthy() throw CommError.
///
/// Throws EnvironmentError, the same on all ranks: this was built without NCCL, or on some rank it
/// cannot be opened, is of an unfit or another version, misses set_nccl_variables(), cannot start,
/// or does not reach the others.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host,
                                                     Backend& backend,
                                                     const NcclOptions& options = {});

/// From any thread: another rank has died. All that make_nccl_communicator() has made in this
/// process fails with `why`, and gives up what the device waits for, within a tenth of a second.
/// Throws std::bad_alloc.
void fail_nccl_communicators(const std::string& why);
/// Whether what such a communicator had on the device hangs there although it has been given up.
bool nccl_abort_hangs();

/// "2.28.9", of the library that is opened. Empty where this was built without NCCL. Throws
/// EnvironmentError: it cannot be opened, or is not the one that this was built for.
std::string nccl_version();
/// The file of that library. Throws as nccl_version(); empty where that is.
std::string nccl_file();

}  // namespace lockstep
