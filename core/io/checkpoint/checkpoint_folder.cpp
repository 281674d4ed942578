// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <fstream>
#include <regex>
#include <span>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/folder.h"
#include "core/io/output_file.h"

namespace lockstep::io {
namespace fs = std::filesystem;
namespace {

/// A message about `checkpoint` without the path to it.
std::string shortened(const std::string& message, const fs::path& checkpoint) {
  const std::string path = checkpoint.string();
  if (!message.starts_with(path)) return message;
  const std::size_t start = message.find_first_not_of("/: ", path.size());
  return start == std::string::npos ? message : message.substr(start);
}

CheckpointState verify_named(const fs::path& checkpoint, std::int64_t step) {
  const CheckpointState state = verify_checkpoint(checkpoint);
  LOCKSTEP_CHECK(state.step == step,
                 DataError,
                 "{}: holds step {}",
                 as_written(checkpoint.string()),
                 state.step);
  return state;
}

/// Under another name first: half a checkpoint never has the name of one.
void remove_checkpoint(const fs::path& folder, std::int64_t step) {
  const fs::path removed = folder / removed_name(step);
  remove_tree(removed);
  rename_path(folder / checkpoint_name(step), removed);
  sync_folder(folder);
  remove_tree(removed);
}

/// The step of a name that replaced_name() gives.
std::optional<std::int64_t> replaced_step(const std::string& name) {
  constexpr std::string_view kEnd = ".old";
  if (!name.starts_with('.') || !name.ends_with(kEnd)) return std::nullopt;
  return step_of(std::string_view(name).substr(1, name.size() - 1 - kEnd.size()));
}

void tidy(const fs::path& folder, const std::string& name) {
  if (is_temporary_name(name)) remove_tree(folder / name);
  const std::optional<std::int64_t> step = replaced_step(name);
  if (!step) return;
  const fs::path target = folder / checkpoint_name(*step);
  if (name_exists(target)) {
    remove_tree(folder / name);
  } else {  // the save was cut off after the old one had lost its name
    rename_path(folder / name, target);
  }
}

bool is_whole(const fs::path& checkpoint) {
  try {
    (void)verify_checkpoint(checkpoint);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

void copy_whole_file(const fs::path& from, const fs::path& to) {
  constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  std::ifstream in(from, std::ios::binary);
  if (!in) throw EnvironmentError(as_written(from.string()) + ": cannot be opened");
  OutputFile out(to, OutputFile::IfThere::refused);
  std::vector<char> piece(kPieceBytes);
  while (in.read(piece.data(), std::streamsize(piece.size())), in.gcount() > 0)
    out.write(std::as_bytes(std::span(piece.data(), std::size_t(in.gcount()))));
  if (in.bad()) throw EnvironmentError(as_written(from.string()) + ": cannot be read");
  out.finish();
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  LOCKSTEP_ASSERT(step >= 0);
  return fmt::format("step_{:08}", step);
}

std::string unfinished_name(std::int64_t step, const std::string& id) {
  return "." + checkpoint_name(step) + (id.empty() ? "" : "." + id) + ".tmp";
}
std::string removed_name(std::int64_t step) { return "." + checkpoint_name(step) + ".removed.tmp"; }
std::string replaced_name(std::int64_t step) { return "." + checkpoint_name(step) + ".old"; }

bool is_temporary_name(const std::string& name) {
  static const std::regex kTemporary(R"(\.step_\d{8,}(\.removed|\.[0-9a-f]+-\d+)?\.tmp)");
  return std::regex_match(name, kTemporary);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  constexpr std::string_view kStart = "step_";
  if (!name.starts_with(kStart)) return std::nullopt;
  std::int64_t step = -1;
  std::from_chars(name.data() + kStart.size(), name.data() + name.size(), step);
  if (step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(folder))
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

std::optional<FoundCheckpoint> newest_checkpoint(const fs::path& folder,
                                                 std::vector<std::string>& skipped_checkpoints) {
  std::vector<std::int64_t> steps = steps_in(folder);
  std::ranges::reverse(steps);
  for (std::int64_t step : steps) {
    const fs::path path = folder / checkpoint_name(step);
    try {
      return FoundCheckpoint{path, verify_named(path, step)};
    } catch (const DataError& error) {
      skipped_checkpoints.push_back(checkpoint_name(step) + ": " + shortened(error.what(), path));
    }
  }
  return std::nullopt;
}

fs::path copy_checkpoint(const fs::path& checkpoint, const fs::path& folder) {
  const std::int64_t step = verify_checkpoint(checkpoint).step;
  const fs::path target = folder / checkpoint_name(step);
  create_folders(folder);
  if (is_whole(target)) return target;
  remove_tree(target);
  const fs::path unfinished = folder / unfinished_name(step);
  remove_tree(unfinished);
  try {
    create_folder(unfinished);
    for (const std::string& name : names_in(checkpoint))
      copy_whole_file(checkpoint / name, unfinished / name);
    sync_folder(unfinished);
    (void)verify_checkpoint(unfinished);  // memory may lie, or change meanwhile
    rename_path(unfinished, target);
    sync_folder(folder);
  } catch (...) {
    try {
      remove_tree(unfinished);
    } catch (const EnvironmentError&) {  // the first error says more; a later start removes it
    }
    throw;
  }
  return target;
}

void remove_temporaries(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) tidy(folder, name);
}

void remove_checkpoints(const fs::path& folder) {
  for (const std::int64_t step : steps_in(folder)) remove_checkpoint(folder, step);
}

std::vector<std::string> remove_old_checkpoints(const fs::path& folder,
                                                std::int64_t newest,
                                                int keep,
                                                std::int64_t best_step,
                                                std::int64_t rollback_base) {
  std::vector<std::string> not_removed;
  if (newest < 0 || !name_exists(folder / checkpoint_name(newest) / kManifestFile)) return {};
  std::vector<std::int64_t> steps = steps_in(folder);
  // Newer ones are damaged leftovers of a run that went back; they must crowd out no whole one.
  std::erase_if(steps, [&](std::int64_t step) { return step > newest; });
  const auto kept = std::min(steps.size(), std::size_t(std::max(keep, 1)));
  steps.resize(steps.size() - kept);
  for (std::int64_t step : steps) {
    if (step == best_step || step == rollback_base) continue;
    try {
      remove_checkpoint(folder, step);
    } catch (const EnvironmentError& error) {
      not_removed.push_back(checkpoint_name(step) + ": " + error.what());
    }
  }
  return not_removed;
}

}  // namespace lockstep::io
