// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mpi.h>
#include <nccl.h>
#include <set>
#include <string>
#include <vector>

#include "tests/nccl/fake_nccl.h"

/// What ranks tell each other to find their way into an MPI communicator.
struct FakeId {
  int root;  ///< rank where ranks meet: FakeNccl::world
  int tag;   ///< this one and the next two are nobody else's
};

struct FakeJoin {
  FakeId id = {};
  std::vector<MPI_Request> requests;
  std::vector<int> arrivals;  ///< at the root: rank here and in the world of each other
  std::vector<int> members;   ///< ranks in the world
  int own[2] = {};
};

/// What ranks tell each other of a split.
struct FakeSplit {
  ncclComm** made = nullptr;  ///< null: none is under way
  MPI_Request request = MPI_REQUEST_NULL;
  int own[2] = {};       ///< colour and key
  std::vector<int> all;  ///< of every rank
};

/// Never freed: graphs and streams may still hold its work.
struct ncclComm {
  int rank = 0, size = 0;
  MPI_Comm mpi = MPI_COMM_NULL;
  FakeJoin join;
  FakeSplit split;
  std::atomic<int> state = ncclInProgress;
  std::atomic<int> failure = ncclSuccess;  ///< what is said once nothing is in progress
  std::atomic<int> polls_left = 0;
  bool is_new_part = false;  ///< of a split that is done, where it is itself not ready yet
  long last_capture = 0;     ///< FakeNccl::capture_of()
  int captures = 0;          ///< that had calls of it
  std::atomic<bool> ended = false, aborted = false;
  std::atomic<int> captured = 0;  ///< groups of calls that graphs hold
  std::atomic<int> eager = 0;     ///< groups of calls that streams hold
  unsigned connected = 0;         ///< bits of FakeKind
  std::set<int> sent_to;          ///< ranks
  std::vector<void*> taken;       ///< of the device's memory
};

enum class FakeKind { all_reduce, all_gather, broadcast, send, receive };

struct FakeCall {
  FakeKind kind;
  const void* from;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  int peer;         ///< or root
  int capture = 0;  ///< which of its communicator's, from 1; 0: it stands in none
};

/// Ends the process: a mistake that NCCL would not survive either.
[[noreturn]] void fake_nccl_dies(const char* why);
/// What ncclGetLastError() says from now on.
void fake_nccl_says(const std::string& words);

void begin_join(ncclComm& comm);
/// True once `comm.mpi` is there.
bool join_is_complete(ncclComm& comm);
void begin_split(ncclComm& comm);
/// True once the part is there, or this rank knows that it has none.
bool split_is_complete(ncclComm& comm);

std::size_t size_of(ncclDataType_t type);
/// Moves the data of calls that belong together. Waits for the other ranks, unless `comm` is
/// aborted.
void do_calls(ncclComm& comm, const std::vector<FakeCall>& calls);
