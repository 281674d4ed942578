// SPDX-License-Identifier: Apache-2.0
// A training over a played NCCL in which one rank is killed; see killed_ranks.py.
//
//   killed_rank join|eager|between|replay RANK FOLDER
//
// Each rank writes what its watchdog says of the end into FOLDER/record_N.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string_view>

#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/comm/watched_communicator.h"
#include "parallel/watchdog/watchdog.h"
#include "tests/nccl/nccl_fixture.h"
#include "tests/parallel/small_runs.h"

namespace lockstep::testing {
namespace {

Communicator* world = nullptr;

/// As parallel/session/job.cpp puts it together.
class WatchedContext final : public RankContext {
 public:
  WatchedContext(const MpiSession& session, const std::string& folder)
      : plain_(make_mpi_communicator(session)),
        watchdog_(*plain_,
                  position(),
                  [file = folder + "/record_" + std::to_string(plain_->rank())](
                      const FaultRecord& record, bool) {
                    std::ofstream(file) << to_json_line(record) << std::endl;
                  },
                  {.training_s = 5, .start_s = 20, .evaluation_s = 5}),
        host_(make_watched_communicator(make_mpi_communicator(session), position(), false)) {}

  void join_devices() { nccl_ = make_nccl({.join_s = 20}, *host_); }
  Backend& backend() override { return device(); }
  Communicator& communicator() override { return *nccl_; }
  Communicator& host_communicator() override { return *host_; }

 private:
  std::unique_ptr<Communicator> plain_;
  Watchdog watchdog_;
  std::unique_ptr<Communicator> host_, nccl_;
};

SmallRun endless_run(bool records) {
  SmallRun run{[](Builder& nn, Value x) { return nn.linear(nn.flatten(x), {.out_features = 10}); },
               data::glyphs(28, 5),
               {.global_batch = 12, .micro_batch = 4, .steps = 1000000}};
  run.options.optimizer = Sgd{.lr = 0.01f};
  run.options.workers = 0;
  run.options.use_graphs = records;
  return run;
}

int play(const std::string& moment, int killed, const std::string& folder) {
  const MpiSession session;
  WatchedContext context(session, folder);
  world = &context.host_communicator();
  const bool dies = context.rank() == killed;
  fake().dies_joining = dies && moment == "join";
  context.join_devices();
  // Of the calls of NCCL; between: those that the host makes between graphs.
  if (dies && (moment == "eager" || moment == "between")) fake().dies_at = 200;
  if (dies && moment == "replay") fake().dies_at_replay = 50;
  train(endless_run(moment == "replay" || moment == "between"), context);
  return 0;
}

}  // namespace

Communicator& mpi_world() { return *world; }

}  // namespace lockstep::testing

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  // With it mpirun ends the others, a second before it kills them. The program itself takes it for
  // a wish to stop.
  std::signal(SIGTERM, SIG_IGN);
  try {
    return lockstep::testing::play(argv[1], std::atoi(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
