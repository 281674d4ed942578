// SPDX-License-Identifier: Apache-2.0
// The save path alone, for crash_everywhere_test.cpp to disturb.
//
//   save_checkpoints FOLDER direct|writer
//
// Saves steps 1, 2, 3, 4 and 4 again, keeping the newest two and the best, step 1. Each holds the
// number of the attempt in attempt.txt. Prints "saved STEP ATTEMPT" after each; ends with the exit
// code of the first error (direct), or continues after it (writer).
#include <cstdio>
#include <cstring>

#include "core/io/checkpoint_writer.h"
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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return int(lockstep::ExitCode::usage);
  return std::strcmp(argv[2], "writer") == 0 ? save_in_background(argv[1]) : save_directly(argv[1]);
}
