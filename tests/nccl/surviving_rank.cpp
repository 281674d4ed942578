// SPDX-License-Identifier: Apache-2.0
// A training over a played NCCL that outlives the death of one rank; see surviving_ranks.py.
//
//   surviving_rank eager|sharded|between|replay|undisturbed RANK FOLDER
//
// As launcher/commands/train_command.cpp does it. Rank 0 prints, at the end, how many ranks there
// are, the step that its last run began from, and the hash of the weights. Exit code 77: this MPI
// has no ULFM.
#include <cstdlib>
#include <iostream>
#include <mpi.h>
#include <string_view>

#include "lockstep/job.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/comm/mpi_world.h"
#include "parallel/session/error_report.h"
#include "parallel/session/survivors.h"
#include "tests/nccl/nccl_fixture.h"
#include "tests/parallel/small_runs.h"

namespace lockstep::testing {
namespace {

struct Play {
  std::string moment;
  int killed;
  std::string folder;
};

struct OutlivedDeath {
  RankDeath death;
};

SmallRun small_run(const Play& play, Job& job) {
  SmallRun run{[](Builder& nn, Value x) { return nn.linear(nn.flatten(x), {.out_features = 10}); },
               data::glyphs(48, 16),
               {.global_batch = 12, .micro_batch = 2, .steps = 60}};
  run.options.optimizer = Sgd{.lr = 0.01f, .momentum = 0.9f};
  run.options.use_graphs = play.moment != "eager" && play.moment != "sharded";
  if (play.moment == "sharded") run.options.sharding = Sharding::optimizer;
  run.options.checkpoint = {.folder = play.folder, .every_steps = 5, .resume = "auto"};
  run.options.accepted = [&job](bool) { outlive_deaths(job); };
  return run;
}

void plan_death(const Play& play, int rank) {
  if (rank != play.killed) return;
  if (play.moment != "replay") fake().dies_at = 60;
  if (play.moment == "replay") fake().dies_at_replay = 30;
}

void train_in_job(const Play& play, bool first) {
  Job job(0, nullptr, {.training_s = 5, .start_s = 30, .evaluation_s = 5, .join_s = 30});
  try {
    job.open_device("cuda");
    if (first) plan_death(play, job.rank());
    const TrainSummary summary = train(small_run(play, job), job);
    end_with_deaths(job);
    if (job.rank() == 0)
      std::cout << job.size() << " ranks from step " << summary.resumed_at << ", weights "
                << summary.weights_sha256 << std::endl;
  } catch (...) {
    auto death = outlived_death(job, true);
    if (!death) throw;
    throw OutlivedDeath{std::move(*death)};
  }
}

}  // namespace

Communicator& mpi_world() { std::abort(); }  // the fixture's, of tests without a Job

int play(const Play& play) {
  if (!MpiSession::has_ulfm()) return 77;
  fake().world = [](void* communicator) {
    *static_cast<MPI_Comm*>(communicator) = lockstep::mpi_world();
  };
  for (bool first = true;; first = false) {
    try {
      train_in_job(play, first);
      return 0;
    } catch (const OutlivedDeath& outlived) {
      if (fake().aborted == 0 || fake().aborts_ended != fake().aborted) {
        std::cerr << "error: " << fake().aborted << " aborts, of which have ended "
                  << fake().aborts_ended << std::endl;
        _exit(1);
      }
      shrink_to_survivors(outlived.death, [](int) { return true; });
    } catch (...) {
      const ErrorReport report = describe(std::current_exception());
      std::cerr << "error: " << report.message << std::endl;
      _exit(report.exit_code);
    }
  }
}

}  // namespace lockstep::testing

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return lockstep::testing::play({argv[1], std::atoi(argv[2]), argv[3]});
}
