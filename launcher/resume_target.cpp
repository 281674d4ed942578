// SPDX-License-Identifier: Apache-2.0
#include "launcher/resume_target.h"

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/base/error.h"
#include "core/io/checkpoint.h"
#include "core/io/checkpoint_names.h"
#include "core/io/preprocessing_file.h"

namespace lockstep {

namespace fs = std::filesystem;

std::string config_of_run(const std::string& resume, const std::string& out) {
  const fs::path run = resume == "auto" ? out : resume;
  if (run.empty()) return {};
  const auto config_in = [](const fs::path& folder) {
    std::error_code error;
    const bool ours =
        fs::exists(folder / "history.jsonl", error) || fs::exists(folder / "manifest.json", error);
    const fs::path file = folder / "config.toml";
    return ours && fs::is_regular_file(file, error) ? file.string() : std::string();
  };
  if (std::string file = config_in(run); !file.empty()) return file;
  try {
    const std::vector<std::int64_t> steps = io::steps_in(run / "checkpoints");
    if (!steps.empty()) return config_in(run / "checkpoints" / io::checkpoint_name(steps.back()));
  } catch (const EnvironmentError&) {
    // What cannot be read is said where the run is opened.
  }
  return {};
}

std::optional<data::Preprocessing> record_of_run(const std::string& resume,
                                                 const std::string& out) {
  const fs::path run = resume == "auto" ? out : resume;
  if (run.empty()) return std::nullopt;
  std::vector<fs::path> folders{run};
  try {
    for (const std::int64_t step : io::steps_in(run / "checkpoints"))
      folders.push_back(run / "checkpoints" / io::checkpoint_name(step));
  } catch (const EnvironmentError&) {
    // What cannot be read is said where the run is opened.
  }
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const fs::path file = *folder / io::kPreprocessingFile;
    std::error_code error;
    if (!fs::is_regular_file(file, error)) continue;
    try {
      return io::read_preprocessing(file.string());
    } catch (const DataError&) {
      // A damaged checkpoint is passed over.
    }
  }
  return std::nullopt;
}

void settle_resume(TrainFlags& flags) {
  std::error_code error;
  fs::path named = fs::path(flags.resume).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // a slash at the end
  LOCKSTEP_CHECK(
      fs::is_directory(named, error), ConfigError, "--resume {}: no such folder", flags.resume);
  fs::path run = named;
  if (fs::exists(named / "manifest.json", error)) {
    const fs::path folder = fs::absolute(named).parent_path();
    run = folder.filename() == "checkpoints" ? folder.parent_path() : fs::path();
  }
  LOCKSTEP_CHECK(
      !run.empty() || !flags.out.empty(),
      ConfigError,
      "--resume {}: this checkpoint lies in no run's folder: say with --out where the run "
      "goes on",
      flags.resume);
  if (flags.out.empty()) flags.out = run.string();
  flags.continues = !run.empty() && fs::equivalent(run, flags.out, error);
  if (flags.continues && named == run) flags.options.checkpoint.resume = "auto";
}

}  // namespace lockstep
