// SPDX-License-Identifier: Apache-2.0
#include "tests/nccl/fake_nccl.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/nccl/fake_comm.h"

namespace {

using Enqueue = int (*)(void* stream, void (*work)(void*), void* argument, void (*release)(void*));

/// Calls that were asked for together, which a graph may do again and again.
struct Work {
  ncclComm* comm;
  std::vector<FakeCall> calls;
  bool captured() const { return calls.front().capture != 0; }
};

struct Group {
  int depth = 0;
  ncclResult_t status = ncclSuccess;
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<FakeCall> calls;
};
thread_local Group group;

std::mutex last_words_mutex;
char failure_handler[512];

ncclResult_t refuse(const char* why) {
  fake_nccl_says(why);
  if (group.depth > 0) group.status = ncclInvalidArgument;
  return ncclInvalidArgument;
}

void fail(ncclComm& comm) {
  fake_nccl_says("connection closed by remote peer");
  comm.failure = ncclRemoteError;
}

void run(void* argument) {
  const Work& work = *static_cast<Work*>(argument);
  FakeNccl& fake = *fake_nccl();
  const bool replayed = work.captured();
  if (!replayed) --work.comm->eager;
  if (work.comm->aborted) return;
  const int number = ++(replayed ? fake.replays : fake.eager);
  if (number == (replayed ? fake.dies_at_replay : fake.dies_at)) std::raise(SIGKILL);
  if (fake.moves != nullptr) fake.moves();
  do_calls(*work.comm, work.calls);
  if (replayed && number == fake.fails_at_replay) fail(*work.comm);
}

void release(void* argument) {
  const auto* work = static_cast<Work*>(argument);
  if (work->captured()) --work->comm->captured;
  delete work;
}

ncclResult_t launch() {
  ncclComm& comm = *group.comm;
  auto* work = new Work{&comm, std::move(group.calls)};
  group.calls.clear();
  const int number = ++fake_nccl()->groups;
  const auto enqueue = reinterpret_cast<Enqueue>(dlsym(RTLD_DEFAULT, "lockstep_emulator_enqueue"));
  if (enqueue == nullptr) fake_nccl_dies("the program exports no lockstep_emulator_enqueue");
  ++(work->captured() ? comm.captured : comm.eager);
  if (enqueue(group.stream, run, work, release) != 0) return ncclUnhandledCudaError;
  if (number == fake_nccl()->fails_at) fail(comm);
  if (fake_nccl()->polls == 0) return ncclSuccess;
  comm.polls_left = int(fake_nccl()->polls);
  comm.state = ncclInProgress;
  return ncclInProgress;
}

bool on_device(const void* memory, const FakeCall& call, int blocks = 1) {
  return fake_nccl()->is_device(memory, std::size_t(blocks) * call.count * size_of(call.type));
}

// NCCL wants graphs of one capture: of a communicator's, as ranks may have captured others between.
int number_of_capture(ncclComm& comm, cudaStream_t stream) {
  const auto capture_of = fake_nccl()->capture_of;
  const long capture = capture_of == nullptr ? 0 : capture_of(stream);
  if (capture == 0) return 0;
  if (capture != comm.last_capture) ++comm.captures;
  comm.last_capture = capture;
  return comm.captures;
}

void connect(ncclComm& comm, const FakeCall& call) {
  FakeNccl& fake = *fake_nccl();
  if (call.kind == FakeKind::send && call.peer != comm.rank &&
      comm.sent_to.insert(call.peer).second)
    ++fake.pairs;
  const unsigned bit = 1u << unsigned(call.kind);
  if (comm.connected & bit) return;
  comm.connected |= bit;
  ++fake.connections;
  if (call.capture == 0) comm.taken.push_back(fake.take(FakeNccl::kConnection));
}

ncclResult_t ask(ncclComm* comm, cudaStream_t stream, const FakeCall& call) {
  if (comm == nullptr || comm->ended) fake_nccl_dies("a communicator is used that is no more");
  if (comm->state != ncclSuccess)
    return refuse("Attempt to use communicator before the previous operation returned ncclSuccess");
  if (call.count == 0) fake_nccl_dies("nothing is to be moved, which the ranks may know by heart");
  if (call.peer < 0 || call.peer >= comm->size) return refuse("invalid peer or root");
  const bool reads = call.kind != FakeKind::broadcast || call.peer == comm->rank;
  if (call.kind != FakeKind::receive && reads && !on_device(call.from, call))
    return refuse("what is to be sent is not the device's memory");
  const int blocks = call.kind == FakeKind::all_gather ? comm->size : 1;
  if (call.kind != FakeKind::send && !on_device(call.to, call, blocks))
    return refuse("what is to be received is not for the device's memory");
  if (!group.calls.empty() && (group.comm != comm || group.stream != stream))
    fake_nccl_dies("groups of several communicators or streams are not played");
  group.comm = comm;
  group.stream = stream;
  group.calls.push_back(call);
  group.calls.back().capture = number_of_capture(*comm, stream);
  connect(*comm, group.calls.back());
  return group.depth > 0 ? ncclSuccess : launch();
}

bool is_played(const ncclConfig_t& config) {
  const ncclConfig_t expected = NCCL_CONFIG_INITIALIZER;
  if (config.magic == expected.magic && config.blocking == 0 && config.splitShare == 0) return true;
  refuse("only communicators that do not block, and share nothing, are played");
  return false;
}

}  // namespace

void fake_nccl_dies(const char* why) {
  std::fprintf(stderr, "played NCCL: %s\n", why);
  std::abort();
}

void fake_nccl_says(const std::string& words) {
  const std::lock_guard lock(last_words_mutex);
  std::snprintf(failure_handler, sizeof failure_handler, "%s", words.c_str());
}

extern "C" {

FakeNccl* fake_nccl() {
  static FakeNccl fake;
  return &fake;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = fake_nccl()->version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t status) {
  switch (status) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "another error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return failure_handler; }

ncclResult_t ncclCommInitRankScalable(
    ncclComm_t* comm, int ranks, int rank, int count, ncclUniqueId* ids, ncclConfig_t* config) {
  if (!is_played(*config)) return ncclInvalidArgument;
  if (count < 1 || count > ranks) return refuse("as many addresses as ranks at most");
  const char* order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (order == nullptr || std::string_view(order) != "1")
    return refuse("NCCL_LAUNCH_ORDER_IMPLICIT is not 1");
  if (fake_nccl()->dies_joining) std::raise(SIGKILL);
  auto* made = new ncclComm;
  made->rank = rank;
  made->size = ranks;
  made->polls_left = int(fake_nccl()->polls);
  std::memcpy(&made->join.id, &ids[0], sizeof made->join.id);
  if (!fake_nccl()->never_joins && fake_nccl()->init_status == 0) begin_join(*made);
  *comm = made;
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(
    ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  if (comm == nullptr || comm->ended) fake_nccl_dies("a communicator is split that is no more");
  if (comm->state != ncclSuccess)
    return refuse("Attempt to use communicator before the previous operation returned ncclSuccess");
  if (comm->eager != 0) fake_nccl_dies("a communicator is split while the device works with it");
  if (!is_played(*config)) return ncclInvalidArgument;
  if (color < NCCL_SPLIT_NOCOLOR) return refuse("invalid color");
  if (fake_nccl()->dies_joining) std::raise(SIGKILL);
  *part = nullptr;
  comm->split.own[0] = color;
  comm->split.own[1] = key;
  comm->split.made = part;
  comm->polls_left = int(fake_nccl()->polls);
  comm->state = ncclInProgress;
  if (!fake_nccl()->never_joins && fake_nccl()->init_status == 0) begin_split(*comm);
  return ncclSuccess;  // as NCCL 2.28.9 does, whose ncclCommGetAsyncError() says that it is at work
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* status) {
  if (comm->ended) fake_nccl_dies("a communicator is asked that is no more");
  if (comm->state == ncclInProgress && comm->polls_left-- <= 0) {
    const bool splits = comm->split.made != nullptr;
    const bool is_made = comm->mpi != MPI_COMM_NULL && !splits;
    const bool is_new_part = std::exchange(comm->is_new_part, false);
    const int failed = is_new_part ? fake_nccl()->part_status : fake_nccl()->init_status;
    if (failed != 0 && (is_new_part || !is_made)) {
      fake_nccl_says("Call to connect failed: no route to host");
      comm->state = failed;
    } else if (is_made) {
      comm->state = ncclSuccess;
    } else if (splits) {
      if (comm->split.request != MPI_REQUEST_NULL && split_is_complete(*comm))
        comm->state = ncclSuccess;
    } else if (!fake_nccl()->never_joins && join_is_complete(*comm)) {
      comm->state = ncclSuccess;
      ++fake_nccl()->joined;
    }
    *status = ncclResult_t(int(comm->state));
  } else {
    const int failure = comm->failure;
    *status = ncclResult_t(comm->state == ncclSuccess ? failure : int(comm->state));
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm->state != ncclSuccess) return refuse("the communicator is not ready");
  comm->polls_left = int(fake_nccl()->polls);
  comm->state = ncclInProgress;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->ended.exchange(true)) fake_nccl_dies("a communicator is destroyed twice");
  if (comm->state != ncclSuccess) fake_nccl_dies("a communicator is destroyed before it is final");
  for (void* memory : comm->taken) fake_nccl()->give_back(memory);
  ++fake_nccl()->destroyed;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm->ended.exchange(true)) fake_nccl_dies("a communicator is aborted that is no more");
  comm->aborted = true;
  ++fake_nccl()->aborted;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (comm->captured != 0) {
    if (std::chrono::steady_clock::now() > end)
      fake_nccl_dies("an abort waits for a graph that nobody destroys");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ++fake_nccl()->aborts_ended;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (group.depth++ == 0) group.status = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return refuse("not in a group call");
  if (--group.depth > 0) return ncclSuccess;
  if (group.status != ncclSuccess) {
    group.calls.clear();
    return group.status;
  }
  return group.calls.empty() ? ncclSuccess : launch();
}

ncclResult_t ncclAllReduce(const void* from,
                           void* to,
                           size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t op,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  if (type != ncclFloat || op != ncclSum) return refuse("only sums of floats are played");
  return ask(comm, stream, {FakeKind::all_reduce, from, to, count, type, 0});
}

ncclResult_t ncclAllGather(const void* from,
                           void* to,
                           size_t count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return ask(comm, stream, {FakeKind::all_gather, from, to, count, type, 0});
}

ncclResult_t ncclBroadcast(const void* from,
                           void* to,
                           size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return ask(comm, stream, {FakeKind::broadcast, from, to, count, type, root});
}

ncclResult_t ncclSend(const void* from,
                      size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  return ask(comm, stream, {FakeKind::send, from, nullptr, count, type, peer});
}

ncclResult_t ncclRecv(
    void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return ask(comm, stream, {FakeKind::receive, nullptr, to, count, type, peer});
}

}  // extern "C"
