// SPDX-License-Identifier: Apache-2.0
// What the calls of a played communicator do, and where NCCL would hang or write nonsense, that
// they say so.
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/nccl/fake_comm.h"

namespace {

constexpr int kTag = 1;

void fail(ncclComm& comm, const std::string& words) {
  fake_nccl_says(words);
  comm.failure = ncclInvalidUsage;
}

using Bytes = std::vector<std::byte>;

/// What MPI works with while other ranks are waited for. Where an abort ends that, MPI keeps it.
struct Transfer {
  std::vector<MPI_Request> requests;
  Bytes own, all;
};

/// False: `comm` is aborted, and `transfer` has no owner any more. A rank that has died is
/// waited for until then, as a device does that waits for another one.
bool wait(const ncclComm& comm, std::unique_ptr<Transfer>& transfer) {
  std::vector<MPI_Request>& requests = transfer->requests;
  for (bool failed = false;;) {
    int done = 0;
    failed |= MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE) !=
              MPI_SUCCESS;
    if (done && !failed) return true;
    if (comm.aborted) return (void)transfer.release(), false;
    std::this_thread::yield();
  }
}

std::unique_ptr<Transfer> transfer_of(const void* own, std::size_t bytes, std::size_t all) {
  auto transfer = std::make_unique<Transfer>();
  const auto* begin = static_cast<const std::byte*>(own);
  if (begin != nullptr) transfer->own.assign(begin, begin + bytes);
  transfer->all.resize(all);
  transfer->requests.resize(1);
  return transfer;
}

/// Whether all ranks ask for the same, as far as an abort lets this one find out.
bool all_agree(ncclComm& comm, const FakeCall& call) {
  const long own[] = {
      long(call.kind), long(call.count), long(call.type), long(call.peer), long(call.capture)};
  auto transfer = transfer_of(own, sizeof own, sizeof own * std::size_t(comm.size));
  MPI_Iallgather(transfer->own.data(),
                 sizeof own,
                 MPI_BYTE,
                 transfer->all.data(),
                 sizeof own,
                 MPI_BYTE,
                 comm.mpi,
                 &transfer->requests[0]);
  if (!wait(comm, transfer)) return true;
  for (std::size_t r = 0; r < std::size_t(comm.size); ++r)
    if (std::memcmp(&transfer->all[sizeof own * r], own, sizeof own) != 0) return false;
  return true;
}

void do_collective(ncclComm& comm, const FakeCall& call) {
  if (!all_agree(comm, call))
    return fail(
        comm,
        "ranks ask for different collectives or counts, or captured them in different captures");
  if (comm.aborted) return;
  const std::size_t bytes = call.count * size_of(call.type);
  const bool gathers = call.kind == FakeKind::all_gather;
  auto transfer = transfer_of(call.from, bytes, gathers ? bytes * std::size_t(comm.size) : bytes);
  Bytes &own = transfer->own, &all = transfer->all;
  MPI_Request* request = &transfer->requests[0];
  if (call.kind == FakeKind::all_reduce) {
    MPI_Iallreduce(own.data(), all.data(), int(call.count), MPI_FLOAT, MPI_SUM, comm.mpi, request);
  } else if (gathers) {
    MPI_Iallgather(
        own.data(), int(bytes), MPI_BYTE, all.data(), int(bytes), MPI_BYTE, comm.mpi, request);
  } else {
    if (comm.rank == call.peer) all = own;
    MPI_Ibcast(all.data(), int(bytes), MPI_BYTE, call.peer, comm.mpi, request);
  }
  if (wait(comm, transfer)) std::memcpy(call.to, all.data(), all.size());
}

void receive(ncclComm& comm, const FakeCall& call) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  for (int found = 0; !found;) {
    MPI_Improbe(call.peer, kTag, comm.mpi, &found, &message, &status);
    if (!found && comm.aborted) return;
    if (!found && std::chrono::steady_clock::now() > end)
      return fail(comm, "nobody sends what is to be received");
  }
  int sent = 0;
  MPI_Get_count(&status, MPI_BYTE, &sent);
  const auto expected = call.count * size_of(call.type);
  auto transfer = transfer_of(nullptr, 0, std::size_t(sent));
  MPI_Imrecv(transfer->all.data(), sent, MPI_BYTE, &message, &transfer->requests[0]);
  if (!wait(comm, transfer)) return;
  if (std::size_t(sent) != expected)
    return fail(comm, "a rank sends another count than is to be received");
  std::memcpy(call.to, transfer->all.data(), expected);
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  if (type == ncclUint8) return 1;
  if (type == ncclFloat) return sizeof(float);
  fake_nccl_dies("a data type that is not played");
}

void do_calls(ncclComm& comm, const std::vector<FakeCall>& calls) {
  std::vector<std::unique_ptr<Transfer>> sends;
  for (const FakeCall& call : calls)
    if (call.kind == FakeKind::send) {
      const std::size_t bytes = call.count * size_of(call.type);
      sends.push_back(transfer_of(call.from, bytes, 0));
      MPI_Isend(sends.back()->own.data(),
                int(bytes),
                MPI_BYTE,
                call.peer,
                kTag,
                comm.mpi,
                &sends.back()->requests[0]);
    }
  for (const FakeCall& call : calls) {
    if (call.kind == FakeKind::receive) receive(comm, call);
    if (call.kind != FakeKind::send && call.kind != FakeKind::receive) do_collective(comm, call);
  }
  for (auto& send : sends) wait(comm, send);
}
