// SPDX-License-Identifier: Apache-2.0
// What the calls of a played communicator do, and where NCCL would hang or write nonsense, that
// they say so.
#include <chrono>
#include <cstring>

#include "tests/nccl/fake_comm.h"

namespace {

constexpr int kTag = 1;

void fail(ncclComm& comm, const std::string& words) {
  fake_nccl_says(words);
  comm.failure = ncclInvalidUsage;
}

/// Whether all ranks ask for the same.
bool all_agree(ncclComm& comm, const FakeCall& call) {
  constexpr int kNumbers = 5;
  const long own[kNumbers] = {
      long(call.kind), long(call.count), long(call.type), long(call.peer), long(call.capture)};
  std::vector<long> all(std::size_t(kNumbers) * std::size_t(comm.size));
  MPI_Allgather(own, kNumbers, MPI_LONG, all.data(), kNumbers, MPI_LONG, comm.mpi);
  for (std::size_t r = 0; r < std::size_t(comm.size); ++r)
    if (std::memcmp(&all[std::size_t(kNumbers) * r], own, sizeof own) != 0) return false;
  return true;
}

void do_collective(ncclComm& comm, const FakeCall& call) {
  if (!all_agree(comm, call))
    return fail(
        comm,
        "ranks ask for different collectives or counts, or captured them in different captures");
  const int bytes = int(call.count * size_of(call.type));
  if (call.kind == FakeKind::all_reduce) {
    const void* from = call.from == call.to ? MPI_IN_PLACE : call.from;
    MPI_Allreduce(from, call.to, int(call.count), MPI_FLOAT, MPI_SUM, comm.mpi);
  } else if (call.kind == FakeKind::all_gather) {
    auto* to = static_cast<std::byte*>(call.to);
    const void* from = call.from == to + comm.rank * bytes ? MPI_IN_PLACE : call.from;
    MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm.mpi);
  } else {
    if (comm.rank == call.peer && call.from != call.to)
      std::memmove(call.to, call.from, std::size_t(bytes));
    MPI_Bcast(call.to, bytes, MPI_BYTE, call.peer, comm.mpi);
  }
}

void receive(ncclComm& comm, const FakeCall& call) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  for (int found = 0; !found;) {
    MPI_Improbe(call.peer, kTag, comm.mpi, &found, &message, &status);
    if (!found && std::chrono::steady_clock::now() > end)
      return fail(comm, "nobody sends what is to be received");
  }
  int sent = 0;
  MPI_Get_count(&status, MPI_BYTE, &sent);
  const int expected = int(call.count * size_of(call.type));
  std::vector<std::byte> other(std::size_t(sent == expected ? 0 : sent));
  MPI_Mrecv(sent == expected ? call.to : other.data(), sent, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  if (sent != expected) fail(comm, "a rank sends another count than is to be received");
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  if (type == ncclUint8) return 1;
  if (type == ncclFloat) return sizeof(float);
  fake_nccl_dies("a data type that is not played");
}

void do_calls(ncclComm& comm, const std::vector<FakeCall>& calls) {
  std::vector<MPI_Request> sends;
  for (const FakeCall& call : calls)
    if (call.kind == FakeKind::send) {
      sends.emplace_back();
      MPI_Isend(call.from,
                int(call.count * size_of(call.type)),
                MPI_BYTE,
                call.peer,
                kTag,
                comm.mpi,
                &sends.back());
    }
  for (const FakeCall& call : calls) {
    if (call.kind == FakeKind::receive) receive(comm, call);
    if (call.kind != FakeKind::send && call.kind != FakeKind::receive) do_collective(comm, call);
  }
  MPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
}
