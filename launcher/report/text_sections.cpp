// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>
#include <fmt/format.h>

#include "core/base/text/number_format.h"
#include "launcher/report/sections.h"
#include "lockstep/train_records.h"

namespace lockstep::report {
namespace {

std::string format_utc(std::int64_t time) {
  const std::time_t seconds = time;
  std::tm utc{};
  if (time <= 0 || gmtime_r(&seconds, &utc) == nullptr) return "";
  char text[64] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
  return text;
}

Json advice_item(const Advice& advice) {
  return {{"text", advice.text.empty() ? advice.cause : advice.text},
          {"evidence", advice.evidence},
          {"remedy", advice.remedy},
          {"gain",
           advice.gain ? fmt::format("Could save {} of the time", format_percent(*advice.gain))
                       : std::string()}};
}

Json starts_table(const RunView& run) {
  if (run->starts.empty()) return nullptr;
  Table table{
      "Processes of the run (UTC)",
      {"from step", "started", "ranks", "host", "version", "what changed", "skipped", "command"},
      {},
      Table::Cells::words};
  constexpr std::size_t kStartsShown = 50;
  for (const Start& start : run->starts) {
    if (table.rows.size() == kStartsShown) {
      table.rows.push_back({fmt::format("and {} more", run->starts.size() - kStartsShown)});
      break;
    }
    table.rows.push_back({format_count(double(start.step)),
                          format_utc(start.time),
                          start.ranks > 0 ? fmt::format("{}", start.ranks) : "",
                          start.host,
                          start.lockstep,
                          start.overridden,
                          start.skipped_checkpoints,
                          start.command});
  }
  return block_of(table);
}

void add_events(Table& table, const EventList& events, const char* kind) {
  for (std::size_t i = 0; i < events.kept.size(); ++i) {
    const std::int64_t missing = events.count - std::int64_t(events.kept.size());
    if (missing > 0 && i + 1 == events.kept.size())
      table.rows.push_back({"", kind, fmt::format("{} more in between", missing)});
    table.rows.push_back({format_count(double(events.kept[i].step)), kind, events.kept[i].what});
  }
}

/// A few, over the whole run.
void add_evaluations(Table& table, const RunRecord& run) {
  constexpr std::size_t kMaxEvaluations = 40;
  const Series& losses = run[Quantity::val_loss];
  double after = losses.empty() ? 0 : losses.first_step() - 1;
  for (const Bucket& bucket : losses.joined(kMaxEvaluations)) {
    std::string what =
        bucket.records > 1 ? fmt::format("mean of {}: ", bucket.records) : std::string();
    what += fmt::format("loss {}", format_number(bucket.mean()));
    if (const auto accuracy = run[Quantity::val_accuracy].mean_between(after, bucket.last_step))
      what += fmt::format(", accuracy {}", format_value(*accuracy, Unit::percent));
    table.rows.push_back({format_count(bucket.last_step), "evaluation", std::move(what)});
    after = bucket.last_step;
  }
}

Table settings_table(const std::string& caption, const std::vector<Setting>& settings) {
  Table table{caption, {"name", "value"}, {}, Table::Cells::words};
  constexpr std::size_t kMaxShown = 300;
  for (const Setting& setting : settings) {
    if (setting.value.empty()) continue;
    if (table.rows.size() == kMaxShown) {
      table.rows.push_back({"...", fmt::format("{} in all", settings.size())});
      break;
    }
    table.rows.push_back({setting.name, setting.value});
  }
  return table;
}

/// Of several runs, each has a heading.
void append_heading(Json& blocks, const RunView& run, const Runs& runs) {
  if (runs.size() > 1) append(blocks, heading(run.label));
}

}  // namespace

Json advice_section(const Runs& runs) {
  Json blocks = Json::array();
  std::string without;
  for (const RunView& run : runs) {
    if (!run->summary || !run->summary->advice) continue;
    Json items = Json::array();
    for (const Advice& advice : *run->summary->advice) items.push_back(advice_item(advice));
    if (items.empty()) {
      without += (without.empty() ? "" : ", ") + run.label;
      continue;
    }
    append_heading(blocks, run, runs);
    append(blocks, Json{{"kind", "advice"}, {"items", std::move(items)}});
  }
  if (runs.size() > 1 && !without.empty())
    append(blocks, paragraph(without + ": nothing stands out that would make these runs faster."));
  else if (!without.empty())
    append(blocks, paragraph("Nothing stands out that would make this run faster."));
  return blocks;
}

Json events_section(const Runs& runs) {
  Json blocks = Json::array();
  for (const RunView& run : runs) {
    Table table{"What happened, by kind", {"step", "kind", "what"}, {}, Table::Cells::words};
    add_events(table, run->faults, "fault");
    add_events(table, run->rollbacks, "rollback");
    add_events(table, run->skips, "step skipped");
    add_events(table, run->checkpoints, "checkpoint");
    add_evaluations(table, *run);
    Json tables = Json::array();
    append(tables, starts_table(run));
    if (!table.rows.empty())
      append(
          tables,
          details(fmt::format(
                      "{} faults, {} rollbacks, {} steps skipped, {} checkpoints, {} evaluations",
                      run->faults.count,
                      run->rollbacks.count,
                      run->skips.count,
                      run->checkpoints.count,
                      (*run)[Quantity::val_loss].records()),
                  Json::array({block_of(table)})));
    if (!tables.empty()) append_heading(blocks, run, runs);
    append(blocks, std::move(tables));
  }
  return blocks;
}

Json settings_section(const Runs& runs) {
  Json blocks = Json::array();
  for (const RunView& run : runs) {
    Json tables = Json::array();
    const auto append_settings =
        [&](const char* summary, const char* caption, const std::vector<Setting>& settings) {
          if (!settings.empty())
            append(tables,
                   details(summary, Json::array({block_of(settings_table(caption, settings))})));
        };
    append_settings("Environment", "Environment", run->environment);
    append_settings("Configuration", "Configuration", run->config);
    if (run->summary) append_settings("All results", "summary.json", run->summary->values);
    if (!tables.empty()) append_heading(blocks, run, runs);
    append(blocks, std::move(tables));
  }
  return blocks;
}

}  // namespace lockstep::report
