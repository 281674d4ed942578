// SPDX-License-Identifier: Apache-2.0
// Ranks under mpirun whose watchdogs are a tree of fan-out 2; see watched_tree.py.
//
//   watched_tree FOLDER TIMEOUT
//
// Each rank writes its process into FOLDER/process_N, and its record of the end into
// FOLDER/record_N.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/watchdog/watchdog.h"

namespace lockstep {
namespace {

constexpr int kSlowRank = 6;

int meet_for_ever(const std::string& folder, double timeout_s) {
  const MpiSession session;
  const auto world = make_mpi_communicator(session);
  const std::string rank = std::to_string(world->rank());
  Position position;
  position.enter(RunStage::training);
  const Watchdog watchdog(
      *world,
      position,
      [&](const FaultRecord& record, bool speaks) {
        // A file system that takes its time: no other may end before, or mpirun kills this rank.
        if (world->rank() == kSlowRank) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        std::ofstream(folder + "/record_" + rank) << to_json_line(record) << std::endl;
        if (speaks) std::cerr << to_block(record) << std::flush;
      },
      {.training_s = timeout_s},
      true,
      {},
      2);
  std::ofstream(folder + "/new_" + rank) << getpid() << std::endl;
  std::filesystem::rename(folder + "/new_" + rank, folder + "/process_" + rank);
  for (std::int64_t step = 1;; ++step) {
    position.set_step(step);
    const CollectiveScope scope(position, {.name = "barrier"});
    world->barrier();
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  // With it mpirun ends the others, a second before it kills them. The program itself takes it for
  // a wish to stop.
  std::signal(SIGTERM, SIG_IGN);
  try {
    return lockstep::meet_for_ever(argv[1], std::atof(argv[2]));
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
