// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/resume_target.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/base/sha256.h"
#include "core/data/input_file.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/checkpoint/manifest.h"
#include "lockstep/data/preprocessing_file.h"

namespace lockstep {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.toml";

namespace {

/// Whether `checkpoint` has all its files, each as long as it was, and an undamaged config.toml.
/// The resume itself reads every byte.
bool looks_whole(const fs::path& checkpoint) {
  try {
    const std::string file = (checkpoint / io::kManifestFile).string();
    const io::Manifest manifest = io::parse_manifest(file, data::read_text_file(file, ""));
    const auto is_complete = [&](const auto& entry) {
      std::error_code error;
      return fs::file_size(checkpoint / entry.first, error) == entry.second.bytes && !error;
    };
    const auto config = manifest.files.find(kConfigFile);
    return config != manifest.files.end() && std::ranges::all_of(manifest.files, is_complete) &&
           sha256_of(data::read_text_file((checkpoint / kConfigFile).string(), "")) ==
               config->second.sha256;
  } catch (const Error&) {
    return false;
  }
}

std::string config_in(const fs::path& folder) {
  const bool ours = is_there(folder / "history.jsonl") || is_there(folder / io::kManifestFile);
  const fs::path file = folder / kConfigFile;
  return ours && is_file(file) ? file.string() : std::string();
}

}  // namespace

std::string config_of_run(const std::string& resume, const std::string& out) {
  const fs::path run = resume == "auto" ? out : resume;
  if (run.empty()) return {};
  std::vector<std::int64_t> steps;
  if (is_folder(run / "checkpoints")) steps = io::steps_in(run / "checkpoints");
  std::ranges::reverse(steps);
  for (const std::int64_t step : steps) {
    const fs::path checkpoint = run / "checkpoints" / io::checkpoint_name(step);
    if (looks_whole(checkpoint)) return config_in(checkpoint);
  }
  return resume == "auto" && steps.empty() ? std::string() : config_in(run);
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
  if (resume == "auto" && folders.size() == 1) return std::nullopt;  // it begins anew
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const fs::path file = *folder / io::kPreprocessingFile;
    if (!is_file(file)) continue;
    try {
      return io::read_preprocessing(file.string());
    } catch (const DataError&) {
      // A damaged checkpoint is skipped.
    }
  }
  return std::nullopt;
}

void resolve_resume(TrainFlags& flags) {
  fs::path named = fs::path(flags.resume).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // a slash at the end
  LOCKSTEP_CHECK(
      is_folder(named), ConfigError, "--resume {}: no such folder", as_written(flags.resume));
  fs::path run = named;
  if (is_there(named / "manifest.json")) {
    const fs::path folder = fs::absolute(named).parent_path();
    run = folder.filename() == "checkpoints" ? folder.parent_path() : fs::path();
  }
  LOCKSTEP_CHECK(
      !run.empty() || !flags.out.empty(),
      ConfigError,
      "--resume {}: this checkpoint lies in no run's folder: say with --out where the run "
      "resumes",
      as_written(flags.resume));
  if (flags.out.empty()) flags.out = run.string();
  std::error_code error;
  flags.continues = !run.empty() && fs::equivalent(run, flags.out, error);
  if (flags.continues && named == run) flags.options.checkpoint.resume = "auto";
}

}  // namespace lockstep
