// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/saved_weights.h"

#include <fmt/format.h>
#include <string>
#include <vector>

#include "core/base/file_kind.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "lockstep/error.h"
#include "parallel/session/error_report.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void expect_file(const fs::path& file, const char* flag) {
  if (!is_file(file))
    throw EnvironmentError(fmt::format("{}: no such file", file.string()),
                           fmt::format("{} is the folder of a run (lockstep train --out DIR) that "
                                       "has ended or has a checkpoint, or a checkpoint's own",
                                       flag));
}

bool is_run(const fs::path& folder) { return is_file(folder / "config.toml"); }

/// The newest run that lies in `folder`; empty: none does.
fs::path newest_run(const fs::path& folder) {
  fs::path newest;
  fs::file_time_type at{};
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    const fs::file_time_type written = fs::last_write_time(entry->path() / "config.toml", unknown);
    if (unknown || (!newest.empty() && written <= at)) continue;
    newest = entry->path();
    at = written;
  }
  return newest;
}

/// Throws where `from` is none of a run's or a checkpoint's folder, but something near one is.
void expect_folder(const fs::path& from, const char* flag) {
  const std::string typed = fmt::format("{} {}", flag, from.string());
  const fs::path beside = (fs::path(from) / "").parent_path().parent_path();
  const fs::path near = beside.empty() ? fs::path(".") : beside;
  if (is_file(from))
    throw ConfigError(typed + " is a file, expected the folder of a run or of a checkpoint",
                      is_run(near) ? fmt::format("use {} {}", flag, near.string())
                                   : "name the folder that lockstep train --out has written");
  if (!is_folder(from) || is_run(from)) return;
  if (is_run(near))
    throw ConfigError(typed + " is a part of a run, expected its folder or a checkpoint's",
                      fmt::format("use {} {}", flag, near.string()));
  if (const fs::path newest = newest_run(from); !newest.empty())
    throw ConfigError(typed + " is not a run, but holds some",
                      fmt::format("use one of them; the newest: {} {}", flag, newest.string()));
}

}  // namespace

fs::path SavedWeights::average() const {
  fs::path file = folder / io::kAverageFile;
  if (!is_file(file))
    throw ConfigError(fmt::format("--ema: {} has no average of the weights", folder.string()),
                      "train with --ema X, as in --ema 0.9999, or leave --ema out");
  return file;
}

SavedWeights find_weights(const fs::path& from, const char* flag) {
  expect_folder(from, flag);
  SavedWeights result{from};
  if (is_file(from / "manifest.json")) {
    result.checkpoint = true;
    result.step = io::verify_checkpoint(from).step;
  } else if (!is_file(from / "model.safetensors")) {
    std::vector<std::string> skipped_checkpoints;
    const auto newest = io::newest_checkpoint(from / "checkpoints", skipped_checkpoints);
    for (const std::string& reason : skipped_checkpoints)
      print_warning("skipped " + reason, launched_rank(process_variables()));
    if (newest) result = {newest->path, true, newest->state.step};
  }
  expect_file(result.folder / "config.toml", flag);
  expect_file(result.file(), flag);
  return result;
}

}  // namespace lockstep
