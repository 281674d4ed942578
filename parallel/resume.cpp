// SPDX-License-Identifier: Apache-2.0
#include "parallel/resume.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// They decide how a run is executed or watched, not what it computes.
constexpr std::array<std::string_view, 7> kFreeSettings{
    "fusion", "recompute", "memory-limit", "bucket-mb", "profile", "log-every", "eval-every"};
constexpr std::string_view kDeviceClass = "device class";

void refuse_newer(const fs::path& chosen, std::int64_t step, const fs::path& folder) {
  std::error_code error;
  if (!fs::equivalent(chosen.parent_path(), folder, error)) return;
  std::vector<std::string> newer;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step_") && name.find('.') == name.npos &&
        name.size() >= io::checkpoint_name(step).size() && name > io::checkpoint_name(step))
      newer.push_back(name);
  }
  std::ranges::sort(newer);
  if (!newer.empty())
    throw ConfigError(fmt::format("{} holds newer checkpoints, which this run would write over: {}",
                                  folder.string(),
                                  fmt::join(newer, ", ")),
                      "choose another --out for a run that branches off here, or move them away");
}

/// What rank 0 finds, as it tells the others: {"path", "digest", "passed_over"}, or {} for the
/// start, or {"error", "hint", "code"}.
json look(const CheckpointOptions& options) {
  const bool automatic = options.resume == "auto";
  const fs::path from = automatic ? fs::path(options.folder) : fs::path(options.resume);
  if (!automatic && fs::exists(from / "manifest.json")) {
    const io::CheckpointState state = io::verify_checkpoint(from);
    refuse_newer(fs::absolute(from).lexically_normal(), state.step, options.folder);
    return {{"path", options.resume},
            {"digest", io::checkpoint_digest(from)},
            {"passed_over", json::array()}};
  }
  const fs::path folder = automatic ? from : from / "checkpoints";
  if (automatic) io::remove_temporaries(folder);  // first: it also brings back what was cut off
  std::vector<std::string> passed_over;
  const auto found = io::newest_checkpoint(folder, passed_over);
  if (!found) {
    LOCKSTEP_CHECK(automatic || !passed_over.empty(),
                   DataError,
                   "{} is neither a checkpoint nor a run that has one",
                   from.string());
    if (!passed_over.empty())
      throw DataError(
          fmt::format(
              "{}: no checkpoint is whole: {}", options.folder, fmt::join(passed_over, "; ")),
          "to start from the beginning, move them away or choose another --out");
    return json::object();
  }
  return {{"path", found->path.string()},
          {"digest", io::checkpoint_digest(found->path)},
          {"passed_over", passed_over}};
}

std::string look_or_error(const CheckpointOptions& options) {
  json found;
  try {
    found = look(options);
  } catch (const Error& error) {
    found = {{"error", error.what()}, {"hint", error.hint()}, {"code", int(error.exit_code())}};
  }
  return found.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string broadcast(Communicator& communicator, std::string text) {
  std::uint64_t bytes = text.size();
  communicator.broadcast(&bytes, sizeof bytes, 0);
  text.resize(bytes);
  communicator.broadcast(text.data(), bytes, 0);
  return text;
}

}  // namespace

std::optional<ResumePoint> find_resume_point(Communicator& communicator,
                                             const CheckpointOptions& options) {
  if (options.resume.empty()) return std::nullopt;
  const bool root = communicator.rank() == 0;
  const json found =
      json::parse(broadcast(communicator, root ? look_or_error(options) : std::string()));
  if (found.contains("error"))
    throw Error(found["error"].get<std::string>(),
                found["hint"].get<std::string>(),
                ExitCode(found["code"].get<int>()));
  if (found.empty()) return std::nullopt;
  ResumePoint point;
  point.record.path = found["path"].get<std::string>();
  point.record.passed_over = found["passed_over"].get<std::vector<std::string>>();
  point.state = io::verify_checkpoint(point.record.path);
  LOCKSTEP_CHECK(
      io::checkpoint_digest(point.record.path) == found["digest"].get<std::string>(),
      EnvironmentError,
      "{} is not the checkpoint that rank 0 sees: the folder must be shared by all nodes",
      point.record.path);
  point.record.step = point.state.step;
  point.record.evaluated = point.state.evaluated;
  return point;
}

void check_settings(ResumePoint& point, const Fingerprint& now, bool allowed) {
  std::map<std::string, std::string> saved(point.state.settings.begin(),
                                           point.state.settings.end());
  std::vector<std::string> differences;
  for (const auto& [key, value] : now) {
    const auto was = saved.find(key);
    const std::string before = was == saved.end() ? "absent" : was->second;
    if (was != saved.end()) saved.erase(was);
    if (before == value || std::ranges::find(kFreeSettings, key) != kFreeSettings.end()) continue;
    const std::string difference = fmt::format("{} was {}, is {}", key, before, value);
    (key == kDeviceClass ? point.record.overridden : differences).push_back(difference);
  }
  for (const auto& [key, value] : saved)
    if (std::ranges::find(kFreeSettings, key) == kFreeSettings.end())
      differences.push_back(fmt::format("{} was {}, is absent", key, value));
  if (!differences.empty() && !allowed)
    throw ConfigError(
        fmt::format("{}: the run was made with other settings: {}",
                    point.record.path,
                    fmt::join(differences, "; ")),
        "use the same flags (config.toml in the checkpoint has them), or allow it with "
        "--resume-override");
  point.record.overridden.insert(
      point.record.overridden.end(), differences.begin(), differences.end());
}

void set_damaged_aside(const CheckpointOptions& options, const ResumeRecord& record) {
  for (const std::string& line : record.passed_over) {
    const fs::path damaged = fs::path(options.folder) / line.substr(0, line.find(':'));
    std::error_code missing;
    if (!fs::exists(damaged, missing)) continue;  // it lies in another run
    fs::path aside = damaged.string() + ".damaged";
    std::error_code ignored;
    for (int i = 2; fs::exists(aside, ignored); ++i)
      aside = fmt::format("{}.damaged-{}", damaged.string(), i);
    fs::rename(damaged, aside, ignored);
  }
}

}  // namespace lockstep
