// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>
#include <fmt/format.h>

#include "core/base/number_format.h"
#include "launcher/report/html.h"
#include "launcher/report/sections.h"

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

std::string advice_item(const Advice& advice) {
  std::string html = fmt::format("<li><strong>{}</strong>",
                                 escaped_start(advice.text.empty() ? advice.cause : advice.text));
  if (!advice.evidence.empty()) html += fmt::format("<br>{}", escaped_start(advice.evidence));
  if (!advice.remedy.empty())
    html += fmt::format("<br>Remedy: <code>{}</code>", escaped_start(advice.remedy));
  if (advice.gain)
    html += fmt::format("<br><span class=\"quiet\">Could save {} of the time</span>",
                        format_percent(*advice.gain));
  return html + "</li>\n";
}

std::string starts_table(const RunView& run) {
  if (run->starts.empty()) return {};
  Table table{"Processes of the run (UTC)",
              {"from step", "started", "ranks", "host", "version", "changed", "skipped", "command"},
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
  return html_of(table);
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

std::string heading_of(const RunView& run, const Runs& runs) {
  return runs.size() > 1 ? fmt::format("<h3>{}</h3>\n", escaped(run.label)) : std::string();
}

}  // namespace

std::string advice_section(const Runs& runs) {
  std::string html;
  for (const RunView& run : runs) {
    if (!run->summary || !run->summary->advice) continue;
    html += heading_of(run, runs);
    if (run->summary->advice->empty()) {
      html += paragraph("No advice: nothing measured would make this run faster.");
      continue;
    }
    html += "<ol class=\"advice\">";
    for (const Advice& advice : *run->summary->advice) html += advice_item(advice);
    html += "</ol>\n";
  }
  return html;
}

std::string events_section(const Runs& runs) {
  std::string html;
  for (const RunView& run : runs) {
    Table table{"What happened, by kind", {"step", "kind", "what"}, {}, Table::Cells::words};
    add_events(table, run->rollbacks, "rollback");
    add_events(table, run->skips, "step skipped");
    add_events(table, run->checkpoints, "checkpoint");
    add_evaluations(table, *run);
    std::string tables = starts_table(run);
    if (!table.rows.empty()) {
      const std::string words =
          fmt::format("{} rollbacks, {} steps skipped, {} checkpoints, {} evaluations",
                      run->rollbacks.count,
                      run->skips.count,
                      run->checkpoints.count,
                      (*run)[Quantity::val_loss].records());
      tables += details(words, html_of(table));
    }
    if (!tables.empty()) html += heading_of(run, runs) + tables;
  }
  return html;
}

std::string settings_section(const Runs& runs) {
  std::string html;
  for (const RunView& run : runs) {
    std::string tables;
    if (!run->environment.empty())
      tables += details("Environment", html_of(settings_table("Environment", run->environment)));
    if (!run->config.empty())
      tables += details("Configuration", html_of(settings_table("Configuration", run->config)));
    if (run->summary && !run->summary->values.empty())
      tables +=
          details("All results", html_of(settings_table("summary.json", run->summary->values)));
    if (!tables.empty()) html += heading_of(run, runs) + tables;
  }
  return html;
}

}  // namespace lockstep::report
