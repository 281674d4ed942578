// SPDX-License-Identifier: Apache-2.0
// The save path alone, for crash_everywhere_test.cpp to disturb.
//
//   save_checkpoints FOLDER direct|writer|together
//
// Saves steps 1, 2, 3, 4 and 4 again, keeping the newest two and the best, step 1. Each holds the
// number of the attempt in attempt.txt. Prints "saved STEP ATTEMPT" after each; ends with the exit
// code of the first error (direct), or continues after it (writer; and together: three ranks, each
// on a thread, write each checkpoint).
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <thread>

#include "core/io/checkpoint/checkpoint_writer.h"
#include "lockstep/error.h"
#include "tests/support/small_checkpoint.h"

namespace {

using lockstep::testing::SmallCheckpoint;

constexpr std::int64_t kSteps[] = {1, 2, 3, 4, 4};
constexpr int kKeep = 2;

lockstep::io::CheckpointContent content(const SmallCheckpoint& small, int attempt) {
  lockstep::io::CheckpointContent result = small.content();
  result.texts["attempt.txt"] = std::to_string(attempt);
  return result;
}

void announce(std::int64_t step, int attempt) {
  std::printf("saved %d %d\n", int(step), attempt);
  std::fflush(stdout);
}

void complain(const std::vector<std::string>& not_removed) {
  for (const std::string& reason : not_removed)
    std::fprintf(stderr, "not removed: %s\n", reason.c_str());
}

int fail(const std::string& message, lockstep::ExitCode code) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return int(code);
}

int save_directly(const char* folder) {
  try {
    int attempt = 0;
    for (std::int64_t step : kSteps) {
      const SmallCheckpoint small(step);
      lockstep::io::write_checkpoint(folder, content(small, ++attempt));
      announce(step, attempt);
      complain(lockstep::io::remove_old_checkpoints(folder, step, kKeep, 1));
    }
    return 0;
  } catch (const lockstep::Error& error) {
    return fail(error.what(), error.exit_code());
  }
}

int save_in_background(const char* folder) {
  int code = 0, attempt = 0;
  lockstep::io::CheckpointWriter writer(folder, kKeep);
  for (std::int64_t step : kSteps) {
    const SmallCheckpoint small(step);
    writer.start(content(small, ++attempt));
    writer.wait();
    for (const lockstep::io::CheckpointResult& result : writer.take_results()) {
      if (result.error.empty()) {
        announce(result.step, attempt);
        complain(result.not_removed);
      } else {
        code = fail(result.error, lockstep::ExitCode::environment);
      }
    }
  }
  return code;
}

constexpr int kRanks = 3;

/// What `rank` has of it: every third tensor.
lockstep::io::CheckpointContent part(lockstep::io::CheckpointContent whole, int rank, int attempt) {
  whole.writers = {.rank = rank, .others = {1, 2}, .id = "abc-" + std::to_string(attempt)};
  for (auto* tensors : {&whole.model, &whole.optimizer})
    for (std::size_t i = 0; i < tensors->size(); ++i)
      if (int(i % kRanks) != rank) (*tensors)[i].stored = {};
  return whole;
}

/// Tells rank 0 what fails on the others, until it is done.
void relay_failures(std::deque<lockstep::io::CheckpointWriter>& ranks) {
  while (!ranks[0].idle()) {
    for (int r = 1; r < kRanks; ++r)
      for (const lockstep::io::CheckpointResult& result : ranks[std::size_t(r)].take_results())
        if (!result.error.empty())
          ranks[0].end_waiting("rank " + std::to_string(r) + ": " + result.error);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int r = 1; r < kRanks; ++r) {
    ranks[std::size_t(r)].end_waiting("the save has ended");
    ranks[std::size_t(r)].wait();
    (void)ranks[std::size_t(r)].take_results();
  }
}

int save_together(const char* folder) {
  int code = 0, attempt = 0;
  std::deque<lockstep::io::CheckpointWriter> ranks;
  for (int r = 0; r < kRanks; ++r) ranks.emplace_back(folder, kKeep);
  for (std::int64_t step : kSteps) {
    const SmallCheckpoint small(step);
    ++attempt;
    for (int r = kRanks; r-- > 0;)
      ranks[std::size_t(r)].start(part(content(small, attempt), r, attempt));
    relay_failures(ranks);
    for (const lockstep::io::CheckpointResult& result : ranks[0].take_results()) {
      if (result.error.empty()) {
        announce(result.step, attempt);
        complain(result.not_removed);
      } else {
        code = fail(result.error, lockstep::ExitCode::environment);
      }
    }
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return int(lockstep::ExitCode::usage);
  if (std::strcmp(argv[2], "together") == 0) return save_together(argv[1]);
  return std::strcmp(argv[2], "writer") == 0 ? save_in_background(argv[1]) : save_directly(argv[1]);
}
