// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "launcher/simulate/simulate_report.h"

namespace lockstep {
namespace {

using report::Json;

/// Storms and faults that a page has tables of.
constexpr std::size_t kMaxTables = 16, kMaxFaults = 500;

void add_paragraphs(Json& blocks, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) report::append(blocks, report::paragraph(line));
}

Json results_of(const SimulateFlags& flags, std::span<const SimulatedRuns> runs) {
  Json blocks = Json::array();
  add_paragraphs(blocks, simulated_subject(flags, runs));
  report::append(blocks, report::block_of(simulated_table(runs)));
  add_paragraphs(blocks, simulated_notes(runs));
  return blocks;
}

Json timeline_of(const SimulatedRuns& run) {
  Json blocks = Json::array();
  Json timeline = report::timeline_block(run.timeline);
  if (timeline.is_null()) {
    report::append(blocks, report::paragraph("The ranks came to the end of no step.", "note"));
    return blocks;
  }
  report::append(blocks, report::paragraph(run.timeline.description + ".", "quiet"));
  report::append(blocks, std::move(timeline));
  return blocks;
}

Json storms_of(const SimulateFlags& flags, std::span<const SimulatedStorm> storms) {
  Json blocks = Json::array();
  if (storms.size() > 1) report::append(blocks, report::paragraph(goodput_of_all(storms)));
  if (storms.size() > kMaxTables)
    report::append(
        blocks,
        report::paragraph(fmt::format("Faults are listed of the first {} storms.", kMaxTables),
                          "quiet"));
  for (std::size_t i = 0; i < storms.size(); ++i) {
    report::append(blocks, report::heading(fmt::format("Seed {}", storms[i].request.seed)));
    report::append(blocks, report::paragraph(storm_subject(flags, storms[i])));
    add_paragraphs(blocks, storm_summary(storms[i]));
    if (i < kMaxTables)
      report::append(blocks, report::block_of(fault_table(storms[i], kMaxFaults)));
  }
  return blocks;
}

Json section(const char* id, const char* heading, Json blocks) {
  return {{"id", id}, {"heading", heading}, {"blocks", std::move(blocks)}};
}

}  // namespace

std::string simulate_page(const SimulateFlags& flags,
                          std::span<const SimulatedRuns> runs,
                          std::span<const SimulatedStorm> storms) {
  Json sections = Json::array();
  sections.push_back(section("results", "Simulated, and predicted times", results_of(flags, runs)));
  sections.push_back(
      section("step", "Timeline of the last step, predicted", timeline_of(runs.back())));
  if (!storms.empty())
    sections.push_back(section("storms", "Fault storms, predicted", storms_of(flags, storms)));
  return report::html_page(
      report::document_of("Simulation of " + flags.train.model.name, std::move(sections)));
}

}  // namespace lockstep
