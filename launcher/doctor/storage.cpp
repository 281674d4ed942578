// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <system_error>

#include "launcher/doctor/host.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStorage = "storage";
constexpr double kGiB = double(1 << 30);
constexpr double kTight = 10 * kGiB, kFull = kGiB / 8;
constexpr double kSlowSeconds = 0.5;

/// The path itself, or the nearest one around it that is there and would hold it.
std::string existing(const std::string& folder) {
  std::error_code none;
  fs::path path = fs::absolute(folder, none);
  const auto there = [&] {
    const fs::file_type type = fs::status(path, none).type();
    // unknown: a folder above it cannot be read.
    return type != fs::file_type::none && type != fs::file_type::not_found &&
           type != fs::file_type::unknown;
  };
  while (!there() && path.has_relative_path()) path = path.parent_path();
  return path;
}

Finding not_writable(const std::string& what, const std::string& folder, int error) {
  const std::string elsewhere = "or choose another folder: --out FOLDER";
  const std::string text =
      fmt::format("{} cannot be written: {}", what, std::generic_category().message(error));
  if (error == EROFS)
    return fail(
        kStorage,
        text,
        fmt::format(
            "sudo mount -o remount,rw \"$(findmnt -no TARGET -T {})\", {}", folder, elsewhere));
  if (error == ENOSPC || error == EDQUOT)
    return fail(
        kStorage,
        text,
        fmt::format("free space there (du -xsh {}/* shows by what), {}", folder, elsewhere));
  if (error == EACCES || error == EPERM)
    return fail(kStorage, text, fmt::format("sudo chown \"$USER\" {}, {}", folder, elsewhere));
  return fail(kStorage, text, "choose another folder: --out FOLDER");
}

}  // namespace

Finding check_storage(const Environment& environment) {
  const std::string folder = existing(environment.root + environment.out);
  const std::string what = fmt::format("--out {}", environment.out);
  std::error_code none;
  if (!fs::is_directory(folder, none))
    return fail(kStorage,
                fmt::format("{} cannot be written: {} is not a folder", what, folder),
                fmt::format("choose another folder: --out FOLDER, or mv {0} {0}.old", folder));
  const WriteTrial trial = environment.write_trial(folder);
  if (trial.error != 0) return not_writable(what, folder, trial.error);
  const std::optional<Space> space = environment.space(folder);
  if (!space) return not_writable(what, folder, ENOENT);
  if (space->free_files == 0) return not_writable(what, folder, ENOSPC);
  const std::string text = fmt::format("{}: {} free, 1 MiB is on the disk in {:.1f} ms",
                                       what,
                                       bytes_text(double(space->free)),
                                       trial.fsync_s * 1e3);
  if (double(space->free) < kFull)
    return fail(kStorage,
                text + ": not enough space for checkpoints",
                fmt::format("free space there (du -xsh {}/* shows by what), or choose another "
                            "folder: --out FOLDER",
                            folder));
  if (double(space->free) < kTight)
    return warn(kStorage,
                text + ": checkpoints of a large model would fill it",
                "--checkpoint-keep 1, or a folder with more space: --out FOLDER");
  if (trial.fsync_s > kSlowSeconds)
    return warn(kStorage,
                text + ": checkpoints will take long",
                "--out FOLDER on a faster disk, or checkpoints less often: --checkpoint-every 30m");
  return pass(kStorage, text);
}

}  // namespace lockstep::doctor
