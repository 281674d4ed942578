// SPDX-License-Identifier: Apache-2.0
#include "launcher/sweep/sweep_result.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/csv_field.h"
#include "core/base/text/number_format.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

constexpr int kFormat = 1;  // of sweep.json
constexpr std::string_view kSeed = "seed";

/// The numbers of a run that are kept, by their names in summary.json.
constexpr std::pair<std::string_view, std::optional<double> SweepRun::*> kNumbers[] = {
    {"val_loss", &SweepRun::val_loss},
    {"val_accuracy", &SweepRun::val_accuracy},
    {"train_loss", &SweepRun::train_loss},
    {"samples_per_s", &SweepRun::samples_per_s}};

std::optional<double> number_of(const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

nlohmann::json read_object(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream, nullptr, false);
}

/// The smaller the better.
double badness(double value, const SweepMetric& metric) {
  return metric.higher_is_better ? -value : value;
}

Configuration without_seed(const Configuration& configuration) {
  Configuration rest;
  std::ranges::copy_if(configuration, std::back_inserter(rest), [](const auto& pair) {
    return pair.first != kSeed;
  });
  return rest;
}

void sum_up(SweepGroup& group, const SweepMetric& metric) {
  group.least = std::numeric_limits<double>::infinity();
  group.most = -group.least;
  for (const SweepRun* run : group.runs) {
    const double value = *metric_of(*run, metric.name);
    group.mean += value / double(group.runs.size());
    group.least = std::min(group.least, value);
    group.most = std::max(group.most, value);
  }
  std::ranges::stable_sort(group.runs, {}, [&](const SweepRun* run) {
    return badness(*metric_of(*run, metric.name), metric);
  });
}

/// Columns as wide as their longest cell, two spaces apart.
std::string aligned(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Cells& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string table_of(const SweepResult& result) {
  const bool repeated = std::ranges::any_of(result.groups, [](const SweepGroup& group) {
    return group.runs.size() + std::size_t(group.failed) > 1;
  });
  std::vector<Cells> rows(1);
  for (const auto& [name, value] : result.groups.front().configuration) rows[0].push_back(name);
  rows[0].emplace_back(result.metric.name);
  if (repeated) rows[0].insert(rows[0].end(), {"range", "runs"});
  rows[0].insert(rows[0].end(), {"time", "folder"});
  for (const SweepGroup& group : result.groups) {
    Cells row;
    for (const auto& [name, value] : group.configuration) row.push_back(value);
    row.push_back(fmt::format("{:.5g}", group.mean));
    if (repeated)
      row.insert(row.end(),
                 {fmt::format("{:.5g}..{:.5g}", group.least, group.most),
                  group.failed == 0 ? fmt::format("{}", group.runs.size())
                                    : fmt::format("{} of {}",
                                                  group.runs.size(),
                                                  group.runs.size() + std::size_t(group.failed))});
    row.insert(row.end(),
               {format_duration(group.runs.front()->seconds), group.runs.front()->folder});
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

/// The sweep's folder may be moved, or be named in another way.
std::string relative_folder(const SweepRun& run) { return "runs/" + folder_of(run.configuration); }

Json json_of(const Configuration& configuration) {
  Json json = Json::object();
  for (const auto& [name, value] : configuration) json[name] = value;
  return json;
}

Json json_of(const SweepRun& run) {
  Json json{{"settings", json_of(run.configuration)},
            {"state", name_of(run.state)},
            {"folder", relative_folder(run)}};
  if (run.state != SweepRun::State::waiting) json["seconds"] = run.seconds;
  if (!run.error.empty()) json["error"] = run.error;
  for (const auto& [name, member] : kNumbers)
    if (run.*member) json[std::string(name)] = *(run.*member);
  return json;
}

}  // namespace

std::string_view name_of(SweepRun::State state) {
  switch (state) {
    case SweepRun::State::done:
      return "done";
    case SweepRun::State::failed:
      return "failed";
    case SweepRun::State::stopped:
      return "stopped";
    case SweepRun::State::waiting:
      break;
  }
  return "waiting";
}

std::optional<double> metric_of(const SweepRun& run, std::string_view metric) {
  for (const auto& [name, member] : kNumbers)
    if (name == metric) return run.*member;
  return std::nullopt;
}

std::string read_numbers(SweepRun& run) {
  const nlohmann::json summary = read_object(run.folder + "/summary.json");
  if (!summary.is_object()) return fmt::format("{}/summary.json is missing or damaged", run.folder);
  for (const auto& [name, member] : kNumbers) run.*member = number_of(summary, name);
  return {};
}

SweepResult compare_runs(const std::string& metric, const std::vector<SweepRun>& runs) {
  SweepResult result;
  const auto is_done = [](const SweepRun& run) { return run.state == SweepRun::State::done; };
  const bool validated = std::ranges::any_of(
      runs, [&](const SweepRun& run) { return is_done(run) && run.val_loss.has_value(); });
  const std::string_view chosen = metric != "auto" ? std::string_view(metric)
                                  : validated      ? "val_loss"
                                                   : "train_loss";
  result.metric = *find_metric(chosen);
  const auto group_of = [&](const SweepRun& run) -> SweepGroup& {
    const Configuration configuration = without_seed(run.configuration);
    auto group = std::ranges::find(result.groups, configuration, &SweepGroup::configuration);
    if (group == result.groups.end())
      group = result.groups.insert(group, {.configuration = configuration, .runs = {}});
    return *group;
  };
  for (const SweepRun& run : runs) {
    const std::optional<double> value = is_done(run) ? metric_of(run, chosen) : std::nullopt;
    if (value && std::isfinite(*value)) {
      group_of(run).runs.push_back(&run);
      continue;
    }
    result.unfinished.push_back(&run);
    if (is_done(run) || run.state == SweepRun::State::failed) ++group_of(run).failed;
  }
  std::erase_if(result.groups, [](const SweepGroup& group) { return group.runs.empty(); });
  for (SweepGroup& group : result.groups) sum_up(group, result.metric);
  std::ranges::stable_sort(result.groups, {}, [&](const SweepGroup& group) {
    return std::pair(group.failed > 0, badness(group.mean, result.metric));
  });
  return result;
}

std::string sweep_text(const SweepResult& result) {
  std::string text;
  if (!result.groups.empty()) text = table_of(result);
  for (const SweepRun* run : result.unfinished)
    text +=
        fmt::format("{}: {}{}\n",
                    run->state == SweepRun::State::done ? fmt::format("no {}", result.metric.name)
                                                        : std::string(name_of(run->state)),
                    configuration_text(run->configuration),
                    run->error.empty() ? "" : ": " + run->error);
  return text;
}

std::string sweep_csv(const std::vector<VariedSetting>& varied, const std::vector<SweepRun>& runs) {
  std::string text;
  for (const VariedSetting& setting : varied) text += csv_name(setting.name) + ",";
  text += "state,val_loss,val_accuracy,train_loss,samples_per_s,seconds,folder,error\n";
  for (const SweepRun& run : runs) {
    for (const auto& [name, value] : run.configuration) text += csv_name(value) + ",";
    text += name_of(run.state);
    for (const auto& [name, member] : kNumbers)
      text +=
          run.*member && std::isfinite(*(run.*member)) ? fmt::format(",{}", *(run.*member)) : ",";
    text += fmt::format(",{:.3f},{},{}\n", run.seconds, csv_name(run.folder), csv_name(run.error));
  }
  return text;
}

std::string sweep_json(const SweepFlags& flags,
                       const SweepResult& result,
                       const std::vector<SweepRun>& runs) {
  Json json{{"format", kFormat}, {"arguments", flags.arguments}, {"metric", result.metric.name}};
  json["best"] =
      result.groups.empty() ? Json(nullptr) : Json(relative_folder(*result.groups[0].runs[0]));
  json["complete"] = std::ranges::all_of(
      runs, [](const SweepRun& run) { return run.state == SweepRun::State::done; });
  for (const SweepRun& run : runs) json["runs"].push_back(json_of(run));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void read_earlier(const std::filesystem::path& file,
                  const SweepFlags& flags,
                  std::vector<SweepRun>& runs) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  const nlohmann::json json = read_object(file);
  const std::string name = as_written(file.string());
  try {
    LOCKSTEP_CHECK(json.at("format").get<int>() == kFormat,
                   DataError,
                   "{}: written by a newer version of lockstep",
                   name);
    if (json.at("arguments").get<std::vector<std::string>>() != flags.arguments)
      throw ConfigError(fmt::format("{}: that sweep has other flags than this one", name),
                        "choose another --out; only --vary, --random, --sweep-seed, --metric and "
                        "--at-once may change");
    for (const nlohmann::json& earlier : json.at("runs")) {
      if (earlier.at("state").get<std::string>() != name_of(SweepRun::State::done)) continue;
      const auto run =
          std::ranges::find(runs, earlier.at("folder").get<std::string>(), relative_folder);
      if (run == runs.end()) continue;
      run->state = SweepRun::State::done;
      run->seconds = earlier.at("seconds").get<double>();
      for (const auto& [key, member] : kNumbers) (*run).*member = number_of(earlier, key);
    }
  } catch (const nlohmann::json::exception& damaged) {
    throw DataError(fmt::format("{}: damaged: {}", name, as_written(damaged.what())),
                    "remove it: runs that are done are then found by their own folders");
  }
}

}  // namespace lockstep
