// SPDX-License-Identifier: Apache-2.0
// Communicators: on one rank SelfCommunicator and MPI, on several MPI.
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/comm/mpi_try.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/communicator_checks.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::AnyOf;
using testing::check_all_reduce;
using testing::check_blocking;
using testing::check_everything;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(Communicator, SelfDoesEverythingAlone) {
  SelfCommunicator self;
  check_everything(self);
  check_everything(*self.split(3, 1));
  EXPECT_THROW(self.broadcast(nullptr, 0, 1), CommError);
  self.abort(1);  // No rank to end: returns.
}

TEST(Communicator, MpiDoesEverything) { check_everything(testing::mpi_world()); }

TEST(Communicator, MessagesDoEverything) {
  const MpiSession session;
  const auto world = make_mpi_communicator(session, MpiExchange::messages);
  check_everything(*world);
  check_everything(*world->split(world->rank() % 2, -world->rank()));

  // Exchanges in flight together take each other's messages for none of theirs.
  const std::size_t ranks = std::size_t(world->size());
  std::vector<std::vector<float>> sent(6), received(6);
  std::vector<CommRequestPtr> requests;
  std::vector<CommBlock> blocks;
  for (std::size_t r = 0; r < ranks; ++r) blocks.push_back({std::int64_t(r) * 30000, 30000});
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i].assign(ranks * 30000, float(10 * i) + float(world->rank()));
    received[i].assign(ranks * 30000, -1.0f);
    requests.push_back(world->start_all_to_all(sent[i].data(), blocks, received[i].data(), blocks));
  }
  while (!requests.empty()) requests.pop_back();
  for (std::size_t i = 0; i < sent.size(); ++i)
    for (std::size_t j = 0; j < received[i].size(); ++j)
      ASSERT_EQ(received[i][j], float(10 * i + j / 30000)) << i << ' ' << j;
}

TEST(Communicator, RanksOfATestShareOneHost) {
  Communicator& world = testing::mpi_world();
  EXPECT_EQ(world.ranks_per_node(), world.size());
  const auto part = world.split(world.rank() % 2, world.rank());
  EXPECT_EQ(part->ranks_per_node(), part->size());
  EXPECT_EQ(SelfCommunicator().ranks_per_node(), 1);
}

TEST(Communicator, SplitGroupsByColorAndOrdersByKey) {
  Communicator& world = testing::mpi_world();
  // Odd and even ranks, in reverse order.
  const auto part = world.split(world.rank() % 2, -world.rank());
  const int members = (world.size() + 1 - world.rank() % 2) / 2;
  ASSERT_EQ(part->size(), members);
  EXPECT_EQ(part->rank(), members - 1 - world.rank() / 2);
  check_everything(*part);
  check_everything(*part->split(0, 0));
}

TEST(Communicator, RequestsInFlightTogetherKeepApart) {
  Communicator& world = testing::mpi_world();
  const auto other = world.split(0, world.rank());
  std::vector<std::vector<float>> data(8, std::vector<float>(30000));
  std::vector<CommRequestPtr> requests;
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i].assign(30000, float(i + 1));
    requests.push_back((i % 2 ? world : *other).start_all_reduce(data[i].data(), 30000));
  }
  while (!requests.empty()) {
    requests.back()->wait();
    requests.pop_back();
  }
  for (std::size_t i = 0; i < data.size(); ++i)
    EXPECT_THAT(data[i], Each(float(i + 1) * float(world.size())));
}

TEST(Communicator, DroppedRequestIsCompleted) {
  Communicator& world = testing::mpi_world();
  std::vector<float> data(100000, 1.0f);
  world.start_all_reduce(data.data(), 100000).reset();
  EXPECT_THAT(data, Each(float(world.size())));
}

TEST(Communicator, MpiErrorsAreThrown) {
  Communicator& world = testing::mpi_world();
  int data = 0;
  try {
    world.broadcast(&data, sizeof data, world.size());
    FAIL() << "a root that does not exist was accepted";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("MPI_Bcast"));
    EXPECT_THAT(error.what(), AnyOf(HasSubstr("MPI_ERR_ROOT"), HasSubstr("Invalid root")));
    EXPECT_FALSE(error.hint().empty());
  }
  const auto part = world.split(0, 0);
  EXPECT_THROW(part->broadcast(&data, sizeof data, -1), CommError)
      << "split lost the error handler";
  EXPECT_THROW(world.split(-1, 0), CommError);
}

TEST(Communicator, TooManyElementsAreRefused) {
  Communicator& world = testing::mpi_world();
  const std::int64_t many = std::int64_t{1} << 31;
  const std::vector<CommBlock> long_blocks(std::size_t(world.size()), CommBlock{0, many});
  const std::vector<CommBlock> far_blocks(std::size_t(world.size()), CommBlock{many, 1});
  const std::vector<CommBlock> empty(std::size_t(world.size()));
  EXPECT_THROW(world.start_all_reduce(nullptr, many), CommError);
  EXPECT_THROW(world.start_all_gather(nullptr, long_blocks), CommError);
  EXPECT_THROW(world.start_all_to_all(nullptr, far_blocks, nullptr, empty), CommError);
  check_all_reduce(world, 10);  // Nothing was started: the communicator still works.
}

TEST(MpiSession, SecondSessionLeavesMpiRunning) {
  { const MpiSession nested; }
  EXPECT_TRUE(MpiSession::running());
  check_blocking(testing::mpi_world());
}

#ifdef OPEN_MPI
/// What MPI itself says of one of its settings; -1: it knows none of that name.
int setting_of_mpi(const char* name) {
  int provided = 0, index = -1, count = 0, value = -1;
  MPI_T_cvar_handle handle = nullptr;
  // Open MPI takes this level for that of the whole program.
  if (MPI_T_init_thread(MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return -1;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return value;
}

TEST(Communicator, SendsBothWaysOfATcpConnectionAtOnce) {
  const int flags = setting_of_mpi("btl_tcp_flags");
  ASSERT_NE(flags, -1);
  constexpr int kSend = 1, kPut = 2;  // of MCA_BTL_FLAGS
  EXPECT_TRUE(flags & kSend);
  EXPECT_FALSE(flags & kPut);
}
#endif

}  // namespace
}  // namespace lockstep
