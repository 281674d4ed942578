// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/page.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <vector>

#include "launcher/processes/host_facts.h"
#include "launcher/report/html.h"
#include "launcher/report/sections.h"
#include "launcher/report/style.h"

namespace lockstep::report {
namespace {

struct SectionAsked {
  const char *id, *heading;
  std::string (*html)(const Runs&);
};
constexpr SectionAsked kSections[] = {
    {"overview", "Overview", overview_section},
    {"differences", "Differences", comparison_section},
    {"advice", "Advice", advice_section},
    {"learning", "Learning", learning_section},
    {"throughput", "Throughput", throughput_section},
    {"ledger", "Where the time goes", time_breakdown_section},
    {"balance", "Balance of ranks", balance_section},
    {"noise-scale", "Batch size", noise_section},
    {"optimization", "Gradient and learning rate", steps_section},
    {"memory", "Memory", memory_section},
    {"gpu", "GPU of rank 0", gpu_section},
    {"events", "Events", events_section},
    {"settings", "Environment and configuration", settings_section},
};

/// Names of folders, with as many folders above as it takes to tell them apart, or else a number.
std::vector<std::string> labels_of(std::span<const RunRecord> runs) {
  std::vector<std::string> labels;
  for (const RunRecord& run : runs) labels.push_back(run.name);
  const auto is_single = [&](const std::string& label) {
    return std::count(labels.begin(), labels.end(), label) == 1;
  };
  std::vector<std::string> result;
  for (std::size_t i = 0; i < runs.size(); ++i)
    result.push_back(is_single(labels[i]) ? labels[i] : runs[i].folder);
  const std::vector<std::string> folders = result;
  for (std::size_t i = 0; i < result.size(); ++i)
    if (std::count(folders.begin(), folders.end(), folders[i]) > 1)
      result[i] += fmt::format(" ({})", i + 1);
  return result;
}

}  // namespace

std::string page_of(std::span<const RunRecord> runs) {
  const std::vector<std::string> labels = labels_of(runs);
  Runs views;
  for (std::size_t i = 0; i < runs.size(); ++i) views.push_back({&runs[i], labels[i], i});
  const std::string title =
      runs.size() == 1 ? "Run " + labels[0] : fmt::format("Comparison of {} runs", runs.size());
  std::string nav, sections;
  for (const SectionAsked& asked : kSections) {
    const std::string html = asked.html(views);
    if (html.empty()) continue;
    nav += fmt::format("<li><a href=\"#{}\">{}</a></li>", asked.id, asked.heading);
    sections += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-h\"><h2 id=\"{0}-h\">{1}</h2>\n{2}</section>\n",
        asked.id,
        asked.heading,
        html);
  }
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n{}\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{} - Lockstep</title>\n",
      kPageMark,
      escaped(title));
  page += "<style>" + style_sheet() + "</style></head>\n<body>\n";
  page += "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n" + hatchings();
  page +=
      fmt::format("<header><h1>{}</h1>\n<nav aria-label=\"Sections\"><ul>{}</ul></nav></header>\n",
                  escaped(title),
                  nav);
  page += "<main id=\"main\">\n" + sections + "</main>\n";
  page += fmt::format(
      "<footer><p>Written by lockstep report {}. Values under the pointer are read off the "
      "charts; exact ones are in the tables below them.</p></footer>\n",
      escaped(lockstep_version()));
  return page + "<script>" + readout_script() + "</script>\n</body></html>\n";
}

}  // namespace lockstep::report
