// SPDX-License-Identifier: Apache-2.0
#include "launcher/resume_target.h"

#include <filesystem>

#include "core/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

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
