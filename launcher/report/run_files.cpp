// SPDX-License-Identifier: Apache-2.0
// The small files of a run's folder. What is wrong with one costs its part of the report, no more.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/data/input_file.h"
#include "core/io/strict_json.h"
#include "launcher/processes/host_facts.h"
#include "launcher/report/run_record.h"
#include "launcher/settings/toml_reader.h"
#include "lockstep/time_breakdown.h"
#include "lockstep/train_records.h"
#include "parallel/monitor/run_advice.h"

namespace lockstep::report {
namespace {

using nlohmann::json;
namespace files = std::filesystem;

constexpr int kMaxDepth = 8;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxSettingBytes = std::uint64_t{1} << 20;  // of config.toml
// Far beyond what a run writes; of more, the rest is skipped, so that memory has a bound.
constexpr std::size_t kMaxBreakdownRows = std::size_t{1} << 16, kMaxAdvice = 16, kMaxGpus = 1024,
                      kMaxCategories = 100, kMaxStarts = 1000, kMaxNodes = 1500,
                      kMaxSettings = 1000, kMaxGpuValues = 100, kMaxClasses = 1000,
                      kMaxMatrixClasses = 100;

std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? std::string() : text_of(*found);
}

double number_in(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return 0;
  const auto value = found->get<double>();
  return std::abs(value) <= Series::kLargest ? value : 0;
}

std::int64_t whole_in(const json& object, const char* name) {
  constexpr double kMax = 9e15;
  return std::int64_t(std::clamp(number_in(object, name), -kMax, kMax));
}

const json& list_in(const json& object, const char* name) {
  static const json none = json::array();
  const auto found = object.find(name);
  return found == object.end() || !found->is_array() ? none : *found;
}

/// Members that are not lists or objects, with `before` in front of their names; no more than bring
/// `settings` to `most`. Returns how many are skipped.
std::size_t add_flat(std::vector<Setting>& settings,
                     const json& object,
                     std::size_t most,
                     const std::string& before = "") {
  std::size_t skipped = 0;
  for (const auto& [name, value] : object.items()) {
    if (value.is_structured() || value.is_null()) continue;
    if (settings.size() < most)
      settings.push_back({before + name, text_of(value)});
    else
      ++skipped;
  }
  return skipped;
}

void note_skipped(RunRecord& run, const char* file, std::size_t skipped) {
  if (skipped > 0)
    run.notes.push_back(fmt::format(
        "{} of the settings in {} are not shown, only the first {}", skipped, file, kMaxSettings));
}

/// Not to be skipped as damage is: what is newer may mean something else.
class NewerFormat final : public DataError {
 public:
  using DataError::DataError;
};

void check_format(const json& object, const std::string& file) {
  const std::int64_t format = whole_in(object, "format");
  if (format > kFormat)
    throw NewerFormat(fmt::format("{} has format {}, this lockstep {} reads {}",
                                  file,
                                  format,
                                  lockstep_version(),
                                  kFormat),
                      "take the version of lockstep that wrote it, or a newer one");
}

std::string whole_text(const std::string& file, std::uint64_t most) {
  LOCKSTEP_CHECK(data::input_file_size(file, "") <= most,
                 DataError,
                 "{} is larger than any that a run writes",
                 file);
  return data::read_text_file(file, "");
}

/// Calls `read` where the file is there; what is wrong with it becomes a note.
template <typename Read>
void with_file(RunRecord& run,
               const char* name,
               const Read& read,
               std::uint64_t most = kMaxFileBytes) {
  const std::string file = (files::path(run.folder) / name).string();
  std::string text;
  try {
    if (!is_there(file)) return;
    text = whole_text(file, most);
    return read(text, file);
  } catch (const NewerFormat&) {
    throw;
  } catch (const DataError& error) {
    run.notes.push_back(fmt::format("{} is skipped: {}", name, error.what()));
  } catch (const ConfigError& error) {
    run.notes.push_back(fmt::format("{} is skipped: {}", name, error.what()));
  }
}

json object_of(const std::string& text, const std::string& file) {
  json object = io::parse_strict_json(text, file, kMaxDepth);
  LOCKSTEP_CHECK(object.is_object(), DataError, "{} is not a JSON object", file);
  check_format(object, file);
  return object;
}

double share_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || !found->is_number() ? std::nan("") : number_in(object, name);
}

/// The classes one by one, and their confusions where those have a row and a column for each.
void add_classes(Summary& summary, const json& evaluation) {
  for (const char* list : {"per_class", "per_label"})
    for (const json& row : list_in(evaluation, list)) {
      if (!row.is_object() || summary.classes.size() == kMaxClasses) continue;
      summary.classes.push_back({text_in(row, row.contains("class") ? "class" : "label"),
                                 whole_in(row, "samples"),
                                 share_in(row, "recall"),
                                 share_in(row, "precision"),
                                 share_in(row, "f1")});
    }
  const json& matrix = list_in(evaluation, "confusion_matrix");
  const std::size_t classes = summary.classes.size();
  if (matrix.size() != classes || classes > kMaxMatrixClasses) return;
  std::vector<std::vector<std::int64_t>> rows;
  for (const json& row : matrix) {
    if (!row.is_array() || row.size() != classes) return;
    rows.emplace_back();
    for (const json& count : row)
      rows.back().push_back(count.is_number_integer() && count.get<double>() >= 0 &&
                                    count.get<double>() <= 9e15
                                ? count.get<std::int64_t>()
                                : 0);
  }
  summary.confusion_matrix = std::move(rows);
}

Summary summary_of(const json& object) {
  Summary summary;
  if (const auto evaluation = object.find("evaluation");
      evaluation != object.end() && evaluation->is_object())
    add_classes(summary, *evaluation);
  for (const json& row : list_in(object, "ledger")) {
    if (!row.is_object() || summary.breakdown.size() == kMaxBreakdownRows) continue;
    RankTimeBreakdown rank{.rank = int(std::clamp<std::int64_t>(whole_in(row, "rank"), 0, 1 << 30)),
                           .host = text_in(row, "host"),
                           .seconds = number_in(row, "seconds")};
    for (std::size_t i = 0; i < kParts; ++i)
      rank.parts[i] = std::max(0.0, number_in(row, std::string(name_of(Part(i))).c_str()));
    summary.breakdown.push_back(std::move(rank));
  }
  if (const auto advice = object.find("advice"); advice != object.end() && advice->is_array()) {
    summary.advice.emplace();
    for (const json& row : *advice) {
      if (!row.is_object() || summary.advice->size() == kMaxAdvice) continue;
      Advice one{text_in(row, "cause"),
                 text_in(row, "text"),
                 text_in(row, "evidence"),
                 text_in(row, "remedy"),
                 std::nullopt};
      if (row.contains("gain") && row["gain"].is_number()) one.gain = number_in(row, "gain");
      summary.advice->push_back(std::move(one));
    }
  }
  if (const auto memory = object.find("memory"); memory != object.end() && memory->is_object())
    for (const auto& [name, bytes] : memory->items())
      if (bytes.is_number() && bytes.get<double>() >= 0 && summary.memory.size() < kMaxCategories)
        summary.memory.emplace_back(name, number_in(*memory, name.c_str()));
  for (const json& row : list_in(object, "gpus"))
    if (row.is_object() && summary.gpus.size() < kMaxGpus) {
      std::vector<Setting> gpu;
      add_flat(gpu, row, kMaxGpuValues);
      for (const auto& [name, value] : row.items())  // {"mean": ..., "most": ...} of a quantity
        if (value.is_object()) add_flat(gpu, value, kMaxGpuValues, name + " ");
      summary.gpus.push_back(std::move(gpu));
    }
  return summary;
}

void read_config(RunRecord& run, const std::string& text) {
  const std::vector<TomlEntry> entries = read_toml(text, "config.toml");
  for (std::size_t i = 0; i < std::min(entries.size(), kMaxSettings); ++i)
    run.config.push_back({entries[i].key, fmt::format("{}", fmt::join(entries[i].values, ", "))});
  note_skipped(run, "config.toml", entries.size() - run.config.size());
}

void read_history(RunRecord& run, std::string_view text, const std::string& file) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (run.starts.size() == kMaxStarts) {
      run.notes.push_back(fmt::format("history.jsonl has more than {} starts", kMaxStarts));
      return;
    }
    try {
      const json start = object_of(std::string(line), fmt::format("{} line {}", file, number));
      run.starts.push_back({whole_in(start, "time"),
                            whole_in(start, "step"),
                            whole_in(start, "ranks"),
                            text_in(start, "checkpoint"),
                            text_in(start, "passed_over"),
                            text_in(start, "overridden"),
                            text_in(start, "host"),
                            text_in(start, "lockstep"),
                            text_in(start, "command")});
    } catch (const NewerFormat&) {
      throw;
    } catch (const DataError& error) {
      if (text.empty()) {
        run.notes.emplace_back("the last line of history.jsonl is cut off");
      } else {
        run.notes.push_back(fmt::format("the rest of history.jsonl is skipped: {}", error.what()));
        return;
      }
    }
  }
}

/// Of two neighbours the fuller moment stays.
void join_pairs(ArenaCurve& memory) {
  std::vector<double>& bytes = memory.live_bytes;
  for (std::size_t i = 0; 2 * i < bytes.size(); ++i)
    bytes[i] = std::max(bytes[2 * i], bytes[std::min(2 * i + 1, bytes.size() - 1)]);
  bytes.resize((bytes.size() + 1) / 2);
  memory.joined *= 2;
}

ArenaCurve step_memory_of(const json& object, const std::string& file) {
  ArenaCurve memory;
  for (const json& bytes : list_in(object, "live_bytes")) {
    LOCKSTEP_CHECK(
        bytes.is_number() && bytes.get<double>() >= 0 && bytes.get<double>() <= Series::kLargest,
        DataError,
        "{} has live bytes that are not a valid number",
        file);
    memory.live_bytes.push_back(bytes.get<double>());
  }
  memory.micro_batch = std::max<std::int64_t>(0, whole_in(object, "micro_batch"));
  memory.first_backward = std::max<std::int64_t>(0, whole_in(object, "first_backward"));
  const json& names = list_in(object, "nodes");
  const bool named = names.size() == memory.live_bytes.size();
  for (std::size_t i = 0; named && i < names.size() && names.size() <= kMaxNodes; ++i)
    memory.nodes.push_back(text_of(names[i]));
  while (memory.live_bytes.size() > kMaxNodes) join_pairs(memory);
  LOCKSTEP_CHECK(!memory.live_bytes.empty(), DataError, "{} has no live bytes", file);
  return memory;
}

}  // namespace

void read_run_files(RunRecord& run) {
  with_file(
      run,
      "config.toml",
      [&](const std::string& text, const std::string&) { read_config(run, text); },
      kMaxSettingBytes);
  with_file(run, "environment.json", [&](const std::string& text, const std::string& file) {
    const json object = object_of(text, file);
    note_skipped(run, "environment.json", add_flat(run.environment, object, kMaxSettings));
  });
  with_file(run, "history.jsonl", [&](const std::string& text, const std::string& file) {
    read_history(run, text, file);
  });
  with_file(run, "summary.json", [&](const std::string& text, const std::string& file) {
    const json object = object_of(text, file);
    run.summary = summary_of(object);
    note_skipped(run, "summary.json", add_flat(run.summary->values, object, kMaxSettings));
  });
  with_file(run, "memory.json", [&](const std::string& text, const std::string& file) {
    run.step_memory = step_memory_of(object_of(text, file), file);
  });
}

}  // namespace lockstep::report
