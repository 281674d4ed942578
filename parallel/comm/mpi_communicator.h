// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/exec/communicator.h"
#include "parallel/comm/mpi_session.h"

namespace lockstep {

/// What a started all-to-all or all-gather is made of: MPI's own nonblocking collective, or
/// messages from every rank to every other, which a CUDA-aware Open MPI 4 sends from device memory
/// where it does no nonblocking collective. All ranks must say the same.
enum class MpiExchange : std::uint8_t { collectives, messages };

/// All ranks of the MPI job, on host memory or, with MpiExchange::messages, also on what memory of
/// devices MPI reaches (up to 1 GiB a rank, and started all-reduces not). Collective over them.
/// `session` must outlive the communicator, what it is split into, and their requests.
///
/// Blocking functions take any size. Started ones take blocks and reaches of at most 2^31 - 1
/// elements (8 GiB) and throw CommError beyond: exchange smaller buckets.
///
/// A request that is destroyed before it completed waits for completion, since MPI still reads and
/// writes its buffers and nonblocking collectives cannot be cancelled. While an exception is in
/// flight it gives up instead (peers may be gone) and leaks; the buffers must then not be reused
/// for anything that matters, and the program should end with abort().
std::unique_ptr<Communicator> make_mpi_communicator(
    const MpiSession& session, MpiExchange exchange = MpiExchange::collectives);

}  // namespace lockstep
