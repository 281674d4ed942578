// SPDX-License-Identifier: Apache-2.0
// What goes wrong with NCCL, played: an error that names it on every rank, and no rank waits.
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <optional>
#include <thread>

#include "lockstep/error.h"
#include "tests/nccl/nccl_fixture.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::device;
using testing::fake;
using ::testing::HasSubstr;
using testing::make_nccl;
using testing::mpi_world;
using testing::OnDevice;

constexpr int kSystemError = 2;  // of nccl.h

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool is_last() { return mpi_world().rank() == mpi_world().size() - 1; }

/// Each has a thread of its own.
void await_aborts(int count) {
  const auto begin = std::chrono::steady_clock::now();
  while (fake().aborted < count && seconds_since(begin) < 10)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// "message | hint" of an ErrorType that `action` throws.
template <typename ErrorType, typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  ADD_FAILURE() << "no error of the type";
  return "no error";
}

/// What making a communicator throws, which all ranks must do with the same words within `limit_s`.
std::string refusal(const NcclOptions& options = {.join_s = 30}, double limit_s = 10) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = error_of<EnvironmentError>([&] { make_nccl(options); });
  EXPECT_LT(seconds_since(begin), limit_s);
  char first[1024] = {};
  std::strncpy(first, text.c_str(), sizeof first - 1);
  mpi_world().broadcast(first, sizeof first, 0);
  EXPECT_EQ(text.substr(0, sizeof first - 1), first) << "ranks say different things";
  return text;
}

class NcclFaults : public ::testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override {
    reset();
    // Whatever happened, a new one can be made.
    const auto comm = make_nccl();
    OnDevice<float> data({1.0f});
    comm->start_all_reduce(data.data(), 1);
    EXPECT_EQ(data.get()[0], float(comm->size()));
  }

 private:
  static void reset() {
    FakeNccl& played = fake();
    played.version = 22809;
    played.id_status = played.init_status = played.fails_at = played.fails_at_replay = 0;
    played.part_status = 0;
    played.never_joins = false;
  }
};

TEST_F(NcclFaults, ALibraryThatOneRankLacksIsNamedOnAll) {
  NcclOptions options;
  if (is_last()) options.library = "libnccl-missing.so.2";
  const std::string text = refusal(options);
  EXPECT_THAT(text, HasSubstr(fmt::format("rank {} (", mpi_world().size() - 1)));
  EXPECT_THAT(text, HasSubstr("libnccl-missing.so.2 (built against 2."));
  EXPECT_THAT(text, HasSubstr("nvidia-nccl-cu"));
  EXPECT_THAT(text, HasSubstr("LD_LIBRARY_PATH"));
}

TEST_F(NcclFaults, DifferentVersionsAreNamedWithTheirRanks) {
  if (is_last()) fake().version = 22703;
  const std::string last = fmt::format("rank {} ", mpi_world().size() - 1);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("NCCL 2.28.9"),
                    ContainsRegex("ranks? 0 \\("),
                    ContainsRegex(last + "\\([^)]*\\): NCCL 2.27.3"),
                    HasSubstr("install the same NCCL on every host")));
}

TEST_F(NcclFaults, VersionsThatWillNotDoAreRefused) {
  fake().version = 22507;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("2.25.7"), HasSubstr("2.26.0 or later of 2 is wanted")));
  fake().version = 30000;
  EXPECT_THAT(refusal(), HasSubstr("is version 3.0.0"));
}

TEST_F(NcclFaults, AnOrderOfLaunchesThatIsSwitchedOffIsRefused) {
  if (is_last()) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr(fmt::format("rank {} (", mpi_world().size() - 1)),
                    HasSubstr("NCCL_LAUNCH_ORDER_IMPLICIT is '0'")));
  set_nccl_variables();
}

TEST_F(NcclFaults, NoAddressToMeetAtIsToldToAll) {
  if (mpi_world().rank() == 0) fake().id_status = kSystemError;
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("rank 0 ("),
                    HasSubstr("no socket interface found"),
                    HasSubstr("NCCL_SOCKET_IFNAME=")));
}

TEST_F(NcclFaults, ARankThatCannotJoinIsNamedOnAll) {
  if (is_last()) fake().init_status = kSystemError;
  const std::string rank = fmt::format("rank {} (", mpi_world().size() - 1);
  EXPECT_THAT(refusal({.join_s = 1}),
              AllOf(HasSubstr(rank),
                    HasSubstr("unhandled system error: Call to connect failed: no route to host"),
                    HasSubstr("not all of the"),
                    HasSubstr("NCCL_DEBUG=WARN")));
  EXPECT_GT(fake().aborted, 0);
}

TEST_F(NcclFaults, NobodyWaitsLongerThanTheLimit) {
  if (is_last()) fake().never_joins = true;
  const std::string ranks =
      fmt::format("not all of the {} ranks had joined after 0.5 s", mpi_world().size());
  EXPECT_THAT(refusal({.join_s = 0.5}, 5), AllOf(HasSubstr(ranks), HasSubstr("firewall")));
}

TEST_F(NcclFaults, PartsSayTheSame) {
  const auto comm = make_nccl({.join_s = 2});
  if (is_last()) fake().never_joins = true;
  const int aborted = fake().aborted;
  EXPECT_THAT(error_of<EnvironmentError>([&] { comm->split(0, 0); }), HasSubstr("had joined"));
  await_aborts(aborted + 1);
  EXPECT_EQ(fake().aborted, aborted + 1) << "NCCL ends a split by the abort of what it splits";
  OnDevice<float> data({1.0f});
  EXPECT_THAT(error_of<CommError>([&] { comm->start_all_reduce(data.data(), 1); }),
              HasSubstr("given up"));
}

TEST_F(NcclFaults, APartThatOneRankCannotJoinIsNamedOnAll) {
  const auto comm = make_nccl({.join_s = 1});
  if (is_last()) fake().init_status = kSystemError;
  EXPECT_THAT(error_of<EnvironmentError>([&] { comm->split(0, 0); }),
              AllOf(HasSubstr(fmt::format("rank {} (", mpi_world().size() - 1)),
                    HasSubstr("no route to host"),
                    HasSubstr("NCCL_DEBUG=WARN")));
}

// NCCL reports the split as done, and what it has made as still under way.
TEST_F(NcclFaults, APartThatFailsAfterItsSplitIsNamedOnAll) {
  const auto comm = make_nccl();
  if (is_last()) fake().part_status = kSystemError;
  const int aborted = fake().aborted;
  EXPECT_THAT(error_of<EnvironmentError>([&] { comm->split(0, 0); }),
              AllOf(HasSubstr(fmt::format("rank {} (", mpi_world().size() - 1)),
                    HasSubstr("unhandled system error: Call to connect failed: no route to host"),
                    HasSubstr("NCCL_DEBUG=WARN")));
  await_aborts(aborted + 2);
  EXPECT_EQ(fake().aborted, aborted + 2) << "the part, and what was split";
}

TEST_F(NcclFaults, AnErrorBehindTheBackEndsAllCollectives) {
  const int aborted = fake().aborted, destroyed = fake().destroyed;
  {
    const auto comm = make_nccl();
    const auto part = comm->split(0, comm->rank());
    OnDevice<float> data({1.0f});
    if (is_last()) fake().fails_at = fake().groups + 2;
    comm->start_all_reduce(data.data(), 1);
    comm->require_healthy();
    comm->start_all_reduce(data.data(), 1);
    if (is_last()) {
      const auto expected =
          AllOf(HasSubstr(fmt::format("rank {} of {}", comm->rank(), comm->size())),
                HasSubstr("network error: connection closed by remote peer"),
                HasSubstr("NCCL_DEBUG=WARN"));
      EXPECT_THAT(error_of<CommError>([&] { comm->require_healthy(); }), expected);
      for (Communicator* each : {comm.get(), part.get()}) {
        EXPECT_THAT(error_of<CommError>([&] { each->require_healthy(); }), expected);
        EXPECT_THAT(error_of<CommError>([&] { each->start_all_reduce(data.data(), 1); }), expected);
        EXPECT_THAT(error_of<CommError>([&] { each->broadcast(data.data(), 4, 0); }), expected);
      }
    } else {
      comm->require_healthy();
    }
    EXPECT_EQ(data.get()[0], float(comm->size() * comm->size()));
    comm->barrier();  // the host's is none of NCCL's business
  }
  EXPECT_EQ(fake().aborted - aborted, is_last() ? 2 : 0);
  EXPECT_EQ(fake().destroyed - destroyed, is_last() ? 0 : 2);
}

TEST_F(NcclFaults, TheWatchGivesUpByItself) {
  const auto comm = make_nccl();
  const auto part = comm->split(0, comm->rank());
  OnDevice<float> data({1.0f});
  const int aborted = fake().aborted;
  fake().fails_at = fake().groups + 1;
  part->start_all_reduce(data.data(), 1);
  await_aborts(aborted + 2);
  EXPECT_EQ(fake().aborted, aborted + 2) << "both, as ranks no longer stand at the same collective";
  EXPECT_THROW(comm->require_healthy(), CommError);
}

// See Note [Aborts wait]: whoever learns of the error is the one to destroy the graph, which holds
// collectives of both.
TEST_F(NcclFaults, AnErrorOfAGraphKeepsNobodyWaiting) {
  const int aborted = fake().aborted, ended = fake().aborts_ended;
  {
    const auto comm = make_nccl();
    const auto part = comm->split(0, comm->rank());
    OnDevice<float> data({1.0f});
    device().begin_capture();
    comm->start_all_reduce(data.data(), 1);
    part->start_all_reduce(data.data(), 1);
    auto graph = device().end_capture();
    graph->launch();
    device().synchronize();
    comm->require_healthy();
    fake().fails_at_replay = fake().replays + 1;
    graph->launch();
    device().synchronize();
    for (Communicator* each : {comm.get(), part.get()})
      EXPECT_THAT(error_of<CommError>([&] { each->require_healthy(); }),
                  AllOf(HasSubstr(fmt::format("rank {} of {}", comm->rank(), comm->size())),
                        HasSubstr("connection closed by remote peer")));
    await_aborts(aborted + 2);
    EXPECT_EQ(fake().aborted, aborted + 2) << "one abort must not wait for another's end";
    EXPECT_EQ(fake().aborts_ended, ended) << "no graph is played that keeps an abort waiting";
    graph.reset();
  }
  EXPECT_EQ(fake().aborts_ended, ended + 2) << "nothing is left under way";
}

TEST_F(NcclFaults, RanksThatAskForDifferentThingsAreAnError) {
  const auto comm = make_nccl();
  OnDevice<float> data(std::vector<float>(10));
  comm->start_all_reduce(data.data(), is_last() ? 10 : 9);
  EXPECT_THAT(error_of<CommError>([&] { comm->require_healthy(); }),
              HasSubstr("ranks ask for different"));
}

TEST_F(NcclFaults, ARefusedCallIsAnError) {
  const auto comm = make_nccl();
  OnDevice<float> data(std::vector<float>(10));
  EXPECT_THAT(error_of<CommError>([&] { comm->start_all_reduce(data.data(), 11); }),
              AllOf(HasSubstr("all-reduce"), HasSubstr("not the device's memory")));
  EXPECT_THROW(comm->start_all_reduce(data.data(), 10), CommError);
  EXPECT_THROW(comm->require_healthy(), CommError);
}

TEST_F(NcclFaults, NothingIsWaitedForWhileAnExceptionIsInFlight) {
  const int aborted = fake().aborted, destroyed = fake().destroyed;
  try {
    const auto comm = make_nccl();
    throw CommError("something else");
  } catch (const CommError&) {
  }
  EXPECT_EQ(fake().aborted, aborted + 1);
  EXPECT_EQ(fake().destroyed, destroyed);
}

}  // namespace
}  // namespace lockstep
