// SPDX-License-Identifier: Apache-2.0
// How the ranks of a played communicator meet: rank 0 hears of all others, tells each who they are,
// and they make an MPI communicator of their own. Ranks that are not among them take no part.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/nccl/fake_comm.h"

namespace {

constexpr int kSplitTag = 2;

MPI_Comm world() {
  MPI_Comm ranks = MPI_COMM_WORLD;
  if (fake_nccl()->world != nullptr) fake_nccl()->world(&ranks);
  return ranks;
}

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(world(), &rank);
  return rank;
}

bool all_done(std::vector<MPI_Request>& requests) {
  int done = 0;
  MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
  return done != 0;
}

void tell_members(ncclComm& comm) {
  FakeJoin& join = comm.join;
  for (std::size_t i = 0; i < join.arrivals.size(); i += 2)
    join.members[std::size_t(join.arrivals[i])] = join.arrivals[i + 1];
  for (int r = 1; r < comm.size; ++r)
    MPI_Send(join.members.data(),
             comm.size,
             MPI_INT,
             join.members[std::size_t(r)],
             join.id.tag + 1,
             world());
}

}  // namespace

void begin_join(ncclComm& comm) {
  FakeJoin& join = comm.join;
  join.members.assign(std::size_t(comm.size), join.id.root);
  const auto others = std::size_t(comm.size - 1);
  if (comm.rank == 0) {
    join.requests.resize(others);
    join.arrivals.resize(2 * others);
    for (std::size_t i = 0; i < others; ++i)
      MPI_Irecv(&join.arrivals[2 * i],
                2,
                MPI_INT,
                MPI_ANY_SOURCE,
                join.id.tag,
                world(),
                &join.requests[i]);
    return;
  }
  join.own[0] = comm.rank;
  join.own[1] = world_rank();
  join.requests.resize(2);
  MPI_Isend(join.own, 2, MPI_INT, join.id.root, join.id.tag, world(), &join.requests[0]);
  MPI_Irecv(join.members.data(),
            comm.size,
            MPI_INT,
            join.id.root,
            join.id.tag + 1,
            world(),
            &join.requests[1]);
}

bool join_is_complete(ncclComm& comm) {
  FakeJoin& join = comm.join;
  if (!all_done(join.requests)) return false;
  if (comm.rank == 0) tell_members(comm);
  MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  MPI_Comm_group(world(), &all);
  MPI_Group_incl(all, comm.size, join.members.data(), &members);
  MPI_Comm_create_group(world(), members, join.id.tag + 2, &comm.mpi);
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  return true;
}

void begin_split(ncclComm& comm) {
  FakeSplit& split = comm.split;
  split.all.resize(2 * std::size_t(comm.size));
  MPI_Iallgather(split.own, 2, MPI_INT, split.all.data(), 2, MPI_INT, comm.mpi, &split.request);
}

bool split_is_complete(ncclComm& comm) {
  FakeSplit& split = comm.split;
  int done = 0;
  MPI_Test(&split.request, &done, MPI_STATUS_IGNORE);
  if (!done) return false;
  ncclComm** const made = std::exchange(split.made, nullptr);
  if (split.own[0] == NCCL_SPLIT_NOCOLOR) return true;
  std::vector<std::pair<int, int>> order;  // keys and ranks
  for (int r = 0; r < comm.size; ++r)
    if (split.all[2 * std::size_t(r)] == split.own[0])
      order.emplace_back(split.all[2 * std::size_t(r) + 1], r);
  std::ranges::sort(order);
  auto* part = new ncclComm;
  std::vector<int> members;
  for (const auto& [key, rank] : order) members.push_back(rank);
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm_group(comm.mpi, &all);
  MPI_Group_incl(all, int(members.size()), members.data(), &some);
  MPI_Comm_create_group(comm.mpi, some, kSplitTag, &part->mpi);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  MPI_Comm_rank(part->mpi, &part->rank);
  MPI_Comm_size(part->mpi, &part->size);
  part->polls_left = int(fake_nccl()->polls);
  part->is_new_part = true;
  *made = part;
  ++fake_nccl()->joined;
  ++fake_nccl()->splits;
  return true;
}

extern "C" ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const int status = fake_nccl()->id_status;
  if (status != ncclSuccess) {
    fake_nccl_says("no socket interface found");
    return ncclResult_t(status);
  }
  ++fake_nccl()->ids;
  static int made = 0;
  int ranks = 0;
  MPI_Comm_size(world(), &ranks);
  const FakeId own{world_rank(), 100000 + 3 * (ranks * made++ + world_rank())};
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &own, sizeof own);
  return ncclSuccess;
}
