// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string_view>

#include "core/base/text/number_format.h"
#include "launcher/report/sections.h"

namespace lockstep::report {
namespace {

std::string format_time(double seconds) {
  constexpr double kMax = 1e12;
  if (seconds >= 60 && seconds < kMax) return format_duration(seconds);
  return fmt::format("{:.3g} s", seconds);
}

std::string format_state(const RunRecord& run) {
  const std::string steps =
      fmt::format("{} step{}", format_count(double(run.steps)), run.steps == 1 ? "" : "s");
  if (run.summary) {
    const auto done = run.summary->number("steps");
    return fmt::format("ended after {}",
                       done ? format_count(*done) + (*done == 1 ? " step" : " steps") : steps);
  }
  if (run.last_change.empty()) return "still running or cut off: nothing has been logged";
  return fmt::format(
      "still running or cut off: {} so far, last written {}", steps, run.last_change);
}

/// A result of the end, or what metrics.jsonl has last where there is no end yet.
std::string format_result(const RunRecord& run, const char* member, Quantity last, Unit unit) {
  if (run.summary)
    if (const auto value = run.summary->number(member)) return format_value(*value, unit);
  const Series& series = run[last];
  if (series.empty()) return "";
  return format_value(series.joined(Series::kMaxBuckets).back().mean(), unit) +
         (run.summary ? "" : " so far");
}

struct ResultAsked {
  const char *words, *member;
  Quantity last;
  Unit unit;
};
constexpr ResultAsked kResults[] = {
    {"validation accuracy", "val_accuracy", Quantity::val_accuracy, Unit::percent},
    {"validation loss", "val_loss", Quantity::val_loss, Unit::plain},
    {"training loss", "train_loss", Quantity::loss, Unit::plain},
    {"samples a second", "samples_per_s", Quantity::samples_per_s, Unit::plain},
};

struct Fact {
  std::string words, value;
  bool big = false;
};

std::string or_of(std::string first, const std::string& second) {
  return first.empty() ? second : first;
}

std::vector<Fact> facts_of(const RunRecord& run) {
  std::vector<Fact> facts;
  for (const ResultAsked& asked : kResults)
    facts.push_back({asked.words, format_result(run, asked.member, asked.last, asked.unit), true});
  const Summary none;
  const Summary& summary = run.summary ? *run.summary : none;
  if (const auto bits = summary.number("val_bits_per_byte"))
    facts.push_back({"validation bits per byte", format_number(*bits), true});
  if (const auto wall = summary.number("wall_s"))
    facts.push_back({"training time", format_time(*wall)});
  facts.push_back({"model", run.config_value("model")});
  facts.push_back({"data", run.config_value("data")});
  const std::string ranks = or_of(summary.text("ranks"), run.environment_value("ranks"));
  facts.push_back({"ranks", ranks});
  facts.push_back({"device", or_of(summary.text("device"), run.environment_value("device"))});
  facts.push_back(
      {"global batch", or_of(run.config_value("global-batch"), summary.text("global_batch"))});
  facts.push_back(
      {"micro-batch", or_of(run.config_value("micro-batch"), summary.text("micro_batch"))});
  facts.push_back({"host", run.environment_value("host")});
  if (run.starts.size() > 1)
    facts.push_back({"processes of the run", fmt::format("{}", run.starts.size())});
  facts.push_back({"weights (SHA-256)", summary.text("weights_sha256").substr(0, 16)});
  std::erase_if(facts, [](const Fact& fact) { return fact.value.empty(); });
  return facts;
}

void append_notes(Json& blocks, const RunView& run, bool alone) {
  for (const std::string& note : run->notes)
    append(blocks, paragraph(alone ? note : run.label + ": " + note, "note"));
}

Table results_table(const Runs& runs) {
  Table table{"Results", {"run", "state"}, {}};
  for (const ResultAsked& asked : kResults) table.header.emplace_back(asked.words);
  for (const char* words : {"training time", "waited for data", "exposed communication", "ranks"})
    table.header.emplace_back(words);
  for (const RunView& run : runs) {
    std::vector<std::string> row{run.label, run->summary ? "ended" : "running or cut off"};
    for (const ResultAsked& asked : kResults)
      row.push_back(format_result(*run, asked.member, asked.last, asked.unit));
    const Summary none;
    const Summary& summary = run->summary ? *run->summary : none;
    const auto wall = summary.number("wall_s");
    row.push_back(wall ? format_time(*wall) : "");
    for (const char* share : {"data_wait_share", "comm_exposed_share"}) {
      const auto value = summary.number(share);
      row.push_back(value ? format_percent(*value) : "");
    }
    row.push_back(or_of(summary.text("ranks"), run->environment_value("ranks")));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table transposed(const Table& table) {
  Table result{table.caption, {}, {}, table.cells};
  std::vector<std::vector<std::string>> rows(table.header.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].push_back(i == 0 ? "" : table.header[i]);
    for (const std::vector<std::string>& row : table.rows) rows[i].push_back(row[i]);
  }
  result.header = rows[0];
  result.rows.assign(rows.begin() + 1, rows.end());
  return result;
}

/// Adds a row for each name whose value is not the same everywhere; of very many, the first.
template <typename ListOf>
void add_differences(Table& table,
                     const Runs& runs,
                     const ListOf& list_of,
                     const std::vector<std::string_view>& ignored) {
  constexpr std::size_t kMaxRows = 300;
  std::map<std::string_view, std::vector<std::string_view>> values;
  std::vector<std::string_view> names;  // in the order of the files
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const Setting& setting : list_of(*runs[i])) {
      if (std::find(ignored.begin(), ignored.end(), setting.name) != ignored.end()) continue;
      const auto [place, is_new] = values.try_emplace(setting.name, runs.size(), "-");
      if (is_new) names.push_back(setting.name);
      place->second[i] = setting.value;
    }
  std::erase_if(names, [&](std::string_view name) {
    const std::vector<std::string_view>& row = values.at(name);
    return std::adjacent_find(row.begin(), row.end(), std::not_equal_to<>()) == row.end();
  });
  for (std::size_t i = 0; i < std::min(names.size(), kMaxRows); ++i) {
    std::vector<std::string> row{std::string(names[i])};
    for (const std::string_view value : values.at(names[i])) row.emplace_back(value);
    table.rows.push_back(std::move(row));
  }
  if (names.size() > kMaxRows)
    table.rows.push_back({fmt::format("and {} more", names.size() - kMaxRows)});
}

}  // namespace

Json overview_section(const Runs& runs) {
  Json blocks = Json::array();
  if (runs.size() > 1) {
    for (const RunView& run : runs) append_notes(blocks, run, false);
    constexpr std::size_t kMaxColumns = 5;  // beyond, a run has a row
    const Table table = results_table(runs);
    append(blocks, block_of(runs.size() <= kMaxColumns ? transposed(table) : table));
    return blocks;
  }
  const RunView& run = runs[0];
  append(blocks, paragraph(format_state(*run), "state"));
  append_notes(blocks, run, true);
  Json facts = Json::array();
  for (const Fact& fact : facts_of(*run))
    facts.push_back({{"name", fact.words}, {"value", fact.value}, {"large", fact.big}});
  append(blocks, {{"kind", "facts"}, {"facts", std::move(facts)}});
  return blocks;
}

Json comparison_section(const Runs& runs) {
  Json blocks = Json::array();
  if (runs.size() < 2) return blocks;
  Table table{"Settings and machines that differ", {"setting"}, {}, Table::Cells::words};
  for (const RunView& run : runs) table.header.push_back(run.label);
  add_differences(table,
                  runs,
                  [](const RunRecord& run) -> const auto& { return run.config; },
                  {"out", "resume", "force"});
  add_differences(table,
                  runs,
                  [](const RunRecord& run) -> const auto& { return run.environment; },
                  {"command"});
  append(blocks,
         table.rows.empty() ? paragraph("The runs have the same settings, machine and version.")
                            : block_of(table));
  return blocks;
}

}  // namespace lockstep::report
