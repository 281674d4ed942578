// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/page.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <vector>

#include "launcher/report/sections.h"

namespace lockstep::report {
namespace {

struct SectionAsked {
  const char *id, *heading;
  Json (*blocks)(const Runs&);
};
constexpr SectionAsked kSections[] = {
    {"overview", "Overview", overview_section},
    {"differences", "Differences", comparison_section},
    {"advice", "Advice", advice_section},
    {"learning", "Learning", learning_section},
    {"classes", "Classes", class_section},
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

Json document_of(std::span<const RunRecord> runs) {
  const std::vector<std::string> labels = labels_of(runs);
  Runs views;
  for (std::size_t i = 0; i < runs.size(); ++i) views.push_back({&runs[i], labels[i], i});
  Json sections = Json::array();
  for (const SectionAsked& asked : kSections) {
    Json blocks = asked.blocks(views);
    if (!blocks.empty())
      sections.push_back(
          {{"id", asked.id}, {"heading", asked.heading}, {"blocks", std::move(blocks)}});
  }
  Json document = document_of(
      runs.size() == 1 ? "Run " + labels[0] : fmt::format("Comparison of {} runs", runs.size()),
      std::move(sections));
  for (std::size_t i = 0; i < runs.size(); ++i)
    document["runs"].push_back(
        {{"label", labels[i]}, {"folder", runs[i].folder}, {"steps", runs[i].steps}});
  return document;
}

std::string page_of(std::span<const RunRecord> runs) { return html_page(document_of(runs)); }

}  // namespace lockstep::report
