// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/run_progress.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/file_kind.h"
#include "core/data/input_file.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/strict_json.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

std::optional<double> wall_s_in(const std::filesystem::path& file) {
  try {
    constexpr int kMaxDepth = 8;
    const std::string text = data::read_text_file(file.string(), "");
    return io::parse_strict_json(text, file.string(), kMaxDepth).at("wall_s").get<double>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

RunProgress newest_in(const std::filesystem::path& checkpoints) {
  std::vector<std::string> skipped_checkpoints;
  const auto newest = io::newest_checkpoint(checkpoints, skipped_checkpoints);
  return newest ? RunProgress{newest->state.step, newest->state.wall_s} : RunProgress{};
}

/// "step" of the last whole line that has one.
std::int64_t last_step_in(const std::filesystem::path& file) {
  constexpr std::streamoff kTail = std::streamoff{1} << 17;  // longer than two lines can be
  if (!is_file(file)) return -1;
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(0, std::ios::end);
  stream.seekg(std::max<std::streamoff>(0, std::streamoff(stream.tellg()) - kTail));
  std::int64_t step = -1;
  for (std::string line; std::getline(stream, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object() && record.contains("step") && record["step"].is_number_integer())
      step = record["step"].get<std::int64_t>();
  }
  return step;
}

}  // namespace

RunProgress glance_at(const std::filesystem::path& out, const RunProgress& before) {
  RunProgress now;
  try {
    const std::vector<std::int64_t> steps = io::steps_in(out / "checkpoints");
    if (!steps.empty()) now.step = steps.back();
  } catch (const std::exception&) {
    return before;
  }
  std::optional<double> trained = wall_s_in(out / "summary.json");
  if (!trained && now.step >= 0)
    trained = wall_s_in(out / "checkpoints" / io::checkpoint_name(now.step) / io::kStateFile);
  now.trained_s = trained.value_or(before.trained_s);
  return now;
}

RunProgress verify_in(const std::filesystem::path& out, const RunProgress& before) {
  try {
    return newest_in(out / "checkpoints");
  } catch (const std::exception&) {
    return before;
  }
}

std::int64_t last_logged_step(const std::filesystem::path& out) {
  return last_step_in(out / "metrics.jsonl");
}

std::filesystem::file_time_type history_time(const std::filesystem::path& out) {
  const std::filesystem::path path = out / "history.jsonl";
  const std::ifstream opened(path);  // NFS may know of a new one only then
  std::error_code error;
  return std::filesystem::last_write_time(path, error);
}

std::int64_t last_resumed_step(const std::filesystem::path& out) {
  return last_step_in(out / "history.jsonl");
}

RunProgress with_snapshots(const RunProgress& saved, const std::string& folder) {
  if (folder.empty()) return saved;
  try {
    const RunProgress newest = newest_in(folder);
    return newest.step > saved.step ? newest : saved;
  } catch (const std::exception&) {
    return saved;
  }
}

}  // namespace lockstep
