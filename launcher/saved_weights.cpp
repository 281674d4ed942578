// SPDX-License-Identifier: Apache-2.0
#include "launcher/saved_weights.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/io/checkpoint.h"
#include "launcher/error_meeting.h"
#include "launcher/rank_discovery.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error);
}

void expect_file(const fs::path& file) {
  if (!is_file(file))
    throw EnvironmentError(fmt::format("{}: no such file", file.string()),
                           "--from is the folder of a run (lockstep train --out DIR) that has "
                           "ended or has a checkpoint, or a checkpoint's own");
}

}  // namespace

SavedWeights find_weights(const fs::path& from) {
  SavedWeights result{from};
  if (is_file(from / "manifest.json")) {
    result.checkpoint = true;
    result.step = io::verify_checkpoint(from).step;
  } else if (!is_file(from / "model.safetensors")) {
    std::vector<std::string> passed_over;
    const auto newest = io::newest_checkpoint(from / "checkpoints", passed_over);
    for (const std::string& reason : passed_over)
      print_warning("passed over " + reason, launched_rank(process_variables()));
    if (newest) result = {newest->path, true, newest->state.step};
  }
  expect_file(result.folder / "config.toml");
  expect_file(result.file());
  return result;
}

}  // namespace lockstep
