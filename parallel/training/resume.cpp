// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/resume.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <filesystem>
#include <fmt/ranges.h>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/folder.h"
#include "core/optim/optimizer.h"
#include "parallel/batch/image_growth.h"
#include "parallel/batch/run_settings.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/error_serialization.h"
#include "parallel/training/snapshot_copies.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// They decide how a run is executed or watched, not what it computes.
constexpr std::array<std::string_view, 12> kFreeSettings{"fusion",
                                                         "recompute",
                                                         "memory-limit",
                                                         "shard",
                                                         "bucket-mb",
                                                         "profile",
                                                         "log-every",
                                                         "noise-scale-every",
                                                         "eval-every",
                                                         "early-stop",
                                                         "check-replicas-every",
                                                         "on-nonfinite"};
constexpr std::string_view kDeviceClass = "device class";
constexpr const char* kAbsent = "absent";

void refuse_newer(const fs::path& chosen, std::int64_t step, const fs::path& folder) {
  std::error_code error;
  if (!fs::equivalent(chosen.parent_path(), folder, error)) return;
  std::vector<std::string> newer;
  for (const std::int64_t other : io::steps_in(folder))
    if (other > step) newer.push_back(io::checkpoint_name(other));
  if (!newer.empty())
    throw ConfigError(fmt::format("{} holds newer checkpoints, which this run would write over: {}",
                                  as_written(folder.string()),
                                  fmt::join(newer, ", ")),
                      "choose another `out` for a run that branches off here, or move them away");
}

/// What a user typed, without a slash at its end.
fs::path normal(const std::string& typed) {
  const fs::path path = fs::absolute(typed).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

bool is_checkpoint(const fs::path& folder) { return is_there(folder / io::kManifestFile); }

/// Where rank 0 searches: in the run's own folder of checkpoints or in that of the named run.
fs::path searched_folder(const CheckpointOptions& options) {
  return options.resume == "auto" ? fs::path(options.folder)
                                  : fs::path(options.resume) / "checkpoints";
}

/// The newest snapshot in memory that verifies, where a run resumes from what is newest. A damaged
/// one costs the steps since the one before it.
std::optional<io::FoundCheckpoint> newest_snapshot(const CheckpointOptions& options) {
  if (options.resume != "auto" || options.snapshot_folder.empty()) return std::nullopt;
  if (!io::is_private(options.snapshot_folder))
    return std::nullopt;  // another user may write there
  io::remove_temporaries(options.snapshot_folder);
  std::vector<std::string> damaged;
  return io::newest_checkpoint(options.snapshot_folder, damaged);
}

json found_at(const io::FoundCheckpoint& found,
              const std::vector<std::string>& skipped_checkpoints,
              bool in_memory) {
  return {{"name", found.path.filename().string()},
          {"digest", io::checkpoint_digest(found.path)},
          {"passed_over", skipped_checkpoints},
          {"in_memory", in_memory}};
}

/// What rank 0 finds, as it tells the others: {"name", "digest", "skipped_checkpoints",
/// "in_memory"}, where the name in the searched folder is empty for a checkpoint that is named
/// itself; {} for the start; or serialize_error(). Paths do not travel, since they need not be
/// UTF-8.
json look(const CheckpointOptions& options) {
  io::remove_temporaries(options.folder);  // first: it also brings back what was cut off
  if (options.resume != "auto" && is_checkpoint(options.resume)) {
    const fs::path chosen = normal(options.resume);
    refuse_newer(chosen, io::verify_checkpoint(chosen).step, options.folder);
    return {
        {"name", ""}, {"digest", io::checkpoint_digest(chosen)}, {"passed_over", json::array()}};
  }
  const fs::path folder = searched_folder(options);
  std::vector<std::string> skipped_checkpoints;
  const auto snapshot = newest_snapshot(options);
  std::optional<io::FoundCheckpoint> found;
  // Checkpoints that are older by their names need not be read.
  if (const auto steps = io::steps_in(folder);
      !snapshot || (!steps.empty() && steps.back() >= snapshot->state.step))
    found = io::newest_checkpoint(folder, skipped_checkpoints);
  if (snapshot && (!found || io::reached(found->state) < io::reached(snapshot->state)))
    return found_at(*snapshot, skipped_checkpoints, true);
  if (found) return found_at(*found, skipped_checkpoints, false);
  if (!skipped_checkpoints.empty())
    throw DataError(fmt::format("{}: no checkpoint is whole: {}",
                                as_written(folder.string()),
                                fmt::join(skipped_checkpoints, "; ")),
                    "to start from the beginning, move them away or choose another `out`");
  LOCKSTEP_CHECK(options.resume == "auto",
                 DataError,
                 "{} is neither a checkpoint nor a run that has one",
                 as_written(options.resume));
  return json::object();
}

template <typename Look>
std::string found_or_error(const Look& look) {
  try {
    return serialized_error_text(look());
  } catch (...) {
    return serialized_error_text(serialize_error(std::current_exception()));
  }
}

void expect_digest(const fs::path& checkpoint, const std::string& digest) {
  std::string seen;
  try {
    seen = io::checkpoint_digest(checkpoint);
  } catch (const Error& error) {
    seen = error.what();
  }
  if (seen != digest)
    throw EnvironmentError(
        fmt::format("{} is not the checkpoint that rank 0 sees", as_written(checkpoint.string())),
        "the run's folder must lie on a file system that all nodes share");
}

/// What look() has found, or its error, on every rank.
template <typename Look>
json tell_all(Communicator& communicator, const Look& look) {
  json found = json::parse(broadcast_string(
      communicator, communicator.rank() == 0 ? found_or_error(look) : std::string()));
  if (found.contains("error")) throw_serialized_error(found);
  return found;
}

/// Verifies it here too.
ResumePoint read_point(Communicator& communicator, const fs::path& path, const json& found) {
  ResumePoint point;
  point.record.path = path.string();
  point.record.skipped_checkpoints = found["passed_over"].get<std::vector<std::string>>();
  if (communicator.rank() != 0) expect_digest(path, found["digest"].get<std::string>());
  point.state = io::verify_checkpoint(path);
  point.record.step = point.state.step;
  point.record.evaluated = point.state.evaluated;
  return point;
}

ResumePoint read_checkpoint(Communicator& communicator, const fs::path& path, std::int64_t step) {
  const json found = tell_all(communicator, [&]() -> json {
    const io::CheckpointState state = io::verify_checkpoint(path);
    LOCKSTEP_CHECK(state.step == step, DataError, "{}: holds step {}", path.string(), state.step);
    return {{"digest", io::checkpoint_digest(path)}, {"passed_over", json::array()}};
  });
  return read_point(communicator, path, found);
}

std::string difference_text(const SettingDifference& difference) {
  const auto& [key, then, now] = difference;
  if (is_hash(key)) return key + " differs";
  if (key == kDataWritten)
    return fmt::format(
        "{} {} then, {} now: the bytes that were compared are the same, others may not be",
        key,
        then,
        now);
  return fmt::format("{} {} then, {} now", key, then, now);
}

std::vector<std::string> difference_texts(const std::vector<SettingDifference>& differences) {
  std::vector<std::string> texts;
  std::ranges::transform(differences, std::back_inserter(texts), difference_text);
  return texts;
}

std::int64_t whole_number(const std::string& text) {
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Where the next epoch has images of another size than it would have had.
void add_other_growth(ResumePoint& point,
                      const data::ImageGrowth& then,
                      const data::ImageGrowth& now,
                      std::int64_t samples) {
  const std::int64_t epoch = point.state.samples / samples;
  for (std::int64_t e = epoch; e < std::max(then.epochs, now.epochs); ++e) {
    if (then.side(e) == now.side(e)) continue;
    point.record.overridden.push_back(
        fmt::format("image-size: growing over {} epochs then, {} now: epoch {} has a side of {} "
                    "then, {} now",
                    then.epochs,
                    now.epochs,
                    e + 1,
                    then.side(e),
                    now.side(e)));
    return;
  }
}

/// Takes what follows from another length alone out of `saved`, which is then as `now`, and records
/// it.
void take_other_length(ResumePoint& point,
                       std::map<std::string, std::string>& saved,
                       const Fingerprint& now,
                       const TrainOptions& options,
                       const data::Dataset& train) {
  const auto entry = std::ranges::find(now, "steps", &Fingerprint::value_type::first);
  const auto was = saved.find("steps");
  if (entry == now.end() || was == saved.end()) return;
  const std::int64_t steps = whole_number(entry->second), then = whole_number(was->second);
  if (steps < point.state.step)
    throw ConfigError(
        fmt::format("{} has {} steps done, more than the {} that the run is to have",
                    point.record.path,
                    point.state.step,
                    steps),
        "make the run longer, or resume from an earlier checkpoint into another `out`");
  if (steps == then) return;
  point.record.overridden.push_back(difference_text({"steps", was->second, entry->second}));
  was->second = entry->second;
  if (options.first_image_size > 0)
    add_other_growth(point,
                     image_growth(train, options, then),
                     image_growth(train, options, steps),
                     train.size());
  const LrSchedule& schedule = options.lr_schedule;
  const LrSchedule before = over_run(schedule, then), after = over_run(schedule, steps);
  const auto rate = saved.find("lr-schedule");
  if (rate == saved.end() || rate->second != to_string(before)) return;
  rate->second = to_string(after);
  const bool decays = follows_run_length(schedule.kind) && schedule.step_every == 0;
  if (decays && before.decay_steps != after.decay_steps)
    point.record.overridden.push_back(fmt::format(
        "lr-schedule: decay over {} steps then, {} now", before.decay_steps, after.decay_steps));
  if (before.warmup_steps != after.warmup_steps || before.stable_steps != after.stable_steps)
    point.record.overridden.push_back(
        fmt::format("lr-schedule: decay began after {} steps then, after {} now",
                    before.warmup_steps + before.stable_steps,
                    after.warmup_steps + after.stable_steps));
}

}  // namespace

std::optional<ResumePoint> find_resume_point(Communicator& communicator,
                                             const CheckpointOptions& options) {
  if (options.resume.empty()) return std::nullopt;
  CheckpointOptions seen = options;
  if (options.resume != "auto" || !copy_newest_snapshot(communicator, options))
    seen.snapshot_folder.clear();
  const json found = tell_all(communicator, [&] { return look(seen); });
  if (found.empty()) return std::nullopt;
  const std::string name = found["name"].get<std::string>();
  const bool in_memory = found.value("in_memory", false);
  const fs::path folder = in_memory ? fs::path(options.snapshot_folder) : searched_folder(options);
  ResumePoint point =
      read_point(communicator, name.empty() ? fs::path(options.resume) : folder / name, found);
  point.record.in_memory = in_memory;
  return point;
}

ResumePoint checkpoint_next_to(Communicator& communicator,
                               const ResumePoint& point,
                               std::int64_t step) {
  const fs::path path = normal(point.record.path);
  return read_checkpoint(
      communicator,
      step == point.state.step ? path : path.parent_path() / io::checkpoint_name(step),
      step);
}

ResumePoint checkpoint_in(Communicator& communicator,
                          const CheckpointOptions& options,
                          std::int64_t step) {
  return read_checkpoint(communicator, fs::path(options.folder) / io::checkpoint_name(step), step);
}

bool is_hash(const std::string& key) {
  return key == "model" || key.ends_with("data content") || key == kDataSample;
}

OtherSettings::OtherSettings(std::string checkpoint,
                             std::vector<SettingDifference> differences,
                             bool can_override)
    : ConfigError(
          fmt::format("{}: the run was made with other settings: {}",
                      checkpoint,
                      fmt::join(difference_texts(differences), "; ")),
          can_override
              ? "use the same settings (config.toml in the checkpoint has them), or allow "
                "others with checkpoint.resume_override"
              : "keep the optimizer and whether it has momentum: the checkpoint has their state; "
                "or begin a new run from the checkpoint's model.safetensors"),
      checkpoint_(std::move(checkpoint)),
      differences_(std::move(differences)),
      can_override_(can_override) {}

void check_settings(ResumePoint& point,
                    const Fingerprint& now,
                    const TrainOptions& options,
                    const data::Dataset& train) {
  std::map<std::string, std::string> saved(point.state.settings.begin(),
                                           point.state.settings.end());
  std::vector<std::string>& changed = point.record.overridden;
  take_other_length(point, saved, now, options, train);
  std::vector<SettingDifference> differences;
  for (const auto& [key, value] : now) {
    const auto was = saved.find(key);
    const std::string before = was == saved.end() ? kAbsent : was->second;
    if (was != saved.end()) saved.erase(was);
    if (before == value || std::ranges::find(kFreeSettings, key) != kFreeSettings.end()) continue;
    // Checkpoints of before have none.
    const bool of_content = key == kDataSample || key == kDataWritten;
    if (of_content && before == kAbsent) continue;
    const SettingDifference difference{key, before, value};
    // A file may be written anew with the same content; what the sample holds of it says so.
    if (key == kDeviceClass || key == kDataWritten)
      changed.push_back(difference_text(difference));
    else
      differences.push_back(difference);
  }
  for (const auto& [key, value] : saved) {
    // A source that has none now checks all that it reads; its content is compared as well.
    const bool of_content = key == kDataSample || key == kDataWritten;
    if (!of_content && std::ranges::find(kFreeSettings, key) == kFreeSettings.end())
      differences.push_back({key, value, kAbsent});
  }
  const bool can_override = std::ranges::all_of(differences, [](const SettingDifference& d) {
    return d.key != "optimizer" || have_same_state(d.then, d.now);
  });
  if (!differences.empty() && (!options.checkpoint.resume_override || !can_override))
    throw OtherSettings(point.record.path, std::move(differences), can_override);
  std::ranges::move(difference_texts(differences), std::back_inserter(changed));
}

void set_damaged_aside(const CheckpointOptions& options, const ResumeRecord& record) {
  if (options.resume != "auto") return;  // they lie in another run
  for (const std::string& line : record.skipped_checkpoints) {
    const fs::path damaged = fs::path(options.folder) / line.substr(0, line.find(':'));
    fs::path aside = damaged.string() + ".damaged";
    std::error_code ignored;
    for (int i = 2; fs::exists(aside, ignored); ++i)
      aside = fmt::format("{}.damaged-{}", damaged.string(), i);
    fs::rename(damaged, aside, ignored);
  }
}

}  // namespace lockstep
