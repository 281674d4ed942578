// SPDX-License-Identifier: Apache-2.0
// What may be in the folder of a run that is to begin or to continue.
#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/base/parameter_names.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/folder.h"
#include "launcher/output/run_folder.h"
#include "launcher/output/run_folder_files.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

/// What `lockstep run` makes before the ranks decide about the folder; or nothing at all.
bool holds_only_raw_output(const fs::path& logs) {
  std::error_code error;
  return fs::is_directory(logs, error) &&
         std::ranges::all_of(io::names_in(logs),
                             [](const std::string& name) { return name == "output"; });
}

/// Whether a run that was cut off before it wrote its configuration may have left `path`: then it
/// can begin here.
bool is_of_a_start(const fs::path& path, RunFolder::Existing existing) {
  const std::string name = path.filename().string();
  if (is_lock(name) || name.starts_with(".shared-")) return true;
  if (name == "logs" && holds_only_raw_output(path)) return true;
  return existing == RunFolder::Existing::own_run &&
         (name == "logs" || name.starts_with("metrics.jsonl"));
}

/// Throws ConfigError where others could exchange the files of a run while it writes them.
void check_owner(const std::string& out) {
  struct stat status {};
  if (stat(out.c_str(), &status) != 0 || status.st_uid == geteuid()) return;
  if ((status.st_mode & S_IWOTH) == 0) return;
  throw ConfigError(
      fmt::format("the output folder {} belongs to another user (uid {}), and every user can "
                  "write to it",
                  as_written(out),
                  status.st_uid),
      "choose a folder of your own with --out, for example one in it; --force takes it as it is");
}

/// Throws ConfigError where a run would begin anew over results that nothing else holds.
void check_begins_anew(const std::string& out) {
  const fs::path folder = fs::path(out) / kCheckpointsFolder;
  if (!io::steps_in(folder).empty()) return;  // it continues, or says why it cannot
  std::string kept;
  for (const char* result : {"summary.json", "model.safetensors"})
    if (io::name_exists(fs::path(out) / result)) kept = result;
  for (const std::string& name : io::names_in(folder))
    if (!name.starts_with(".step_")) kept = fmt::format("{}/{}", kCheckpointsFolder, name);
  if (!kept.empty())
    throw ConfigError(
        fmt::format(
            "the run in {} has no checkpoint to resume from, but {}", as_written(out), kept),
        "choose another --out, or begin again over it with --force instead of --resume");
}

}  // namespace

void RunFolder::check(const std::string& out, Existing existing) {
  if (out.empty()) return;
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  if (status.type() == fs::file_type::not_found) return;
  if (error)
    throw EnvironmentError(
        fmt::format("cannot read the output folder {}: {}", as_written(out), error.message()),
        kOutputFolderHint);
  LOCKSTEP_CHECK(
      fs::is_directory(status), ConfigError, "--out {} is not a folder", as_written(out));
  if (existing == Existing::nothing) check_owner(out);
  if (existing == Existing::anything) return;
  bool empty = true;
  for (const std::string& name : io::names_in(out))
    empty = empty && is_of_a_start(fs::path(out) / name, existing);
  if (empty) return;
  const bool run = io::name_exists(fs::path(out) / kHistoryFile);
  if (existing == Existing::own_run) {
    if (run) return check_begins_anew(out);
    throw ConfigError(
        fmt::format("the output folder {} holds no run that could resume", as_written(out)),
        "choose another --out");
  }
  throw ConfigError(
      fmt::format("the output folder {} already exists and is not empty", as_written(out)),
      run ? "choose another --out, write over it with --force, or resume from its "
            "newest checkpoint "
            "with --resume auto"
          : "choose another --out, or write over it with --force");
}

RunFolder::Existing existing_folder(const TrainFlags& flags) {
  if (flags.continues || (!flags.resume.empty() && env().restarted))
    return RunFolder::Existing::own_run;
  return flags.force ? RunFolder::Existing::anything : RunFolder::Existing::nothing;
}

}  // namespace lockstep
