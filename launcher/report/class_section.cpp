// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fmt/format.h>

#include "core/base/text/number_format.h"
#include "launcher/report/sections.h"

namespace lockstep::report {
namespace {

std::string share_text(double share) { return std::isnan(share) ? "-" : format_percent(share); }

Json classes_table(const RunView& run, const std::string& caption) {
  Table table{caption, {"class", "samples", "recall", "precision", "F1"}, {}};
  for (const ClassResult& one : run->summary->classes)
    table.rows.push_back({one.name,
                          format_count(double(one.samples)),
                          share_text(one.recall),
                          share_text(one.precision),
                          share_text(one.f1)});
  return block_of(table);
}

/// A row for each class, a column for each that it is taken for.
Json confusion_table(const RunView& run) {
  const Summary& summary = *run->summary;
  if (summary.confusion_matrix.empty()) return nullptr;
  Table table{"Samples of a class (row) by predicted class (column)", {"class"}, {}};
  for (const ClassResult& one : summary.classes) table.header.push_back(one.name);
  for (std::size_t k = 0; k < summary.confusion_matrix.size(); ++k) {
    std::vector<std::string> row{summary.classes[k].name};
    for (const std::int64_t count : summary.confusion_matrix[k])
      row.push_back(count == 0 ? "" : format_count(double(count)));
    table.rows.push_back(std::move(row));
  }
  return details("Confusion matrix", Json::array({block_of(table)}));
}

}  // namespace

Json class_section(const Runs& runs) {
  Json blocks = Json::array();
  for (const RunView& run : runs) {
    if (!run->summary || run->summary->classes.empty()) continue;
    append(blocks,
           classes_table(run,
                         runs.size() == 1 ? "Classes of the validation part"
                                          : run.label + ": classes of the validation part"));
    append(blocks, confusion_table(run));
  }
  return blocks;
}

}  // namespace lockstep::report
