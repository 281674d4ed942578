// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/csv.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>

#include "core/base/file_kind.h"
#include "core/base/text/csv_field.h"

namespace lockstep::report {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

const char* line_kind_name(LineKind kind) {
  switch (kind) {
    case LineKind::step:
      return "step";
    case LineKind::evaluation:
      return "evaluation";
    case LineKind::checkpoint:
      return "checkpoint";
    case LineKind::skip:
      return "skipped_step";
    case LineKind::rollback:
      return "rollback";
    case LineKind::fault:
      return "fault";
    case LineKind::other:
      break;
  }
  return "other";
}

const std::string& text_of(const MetricsLine& line) {
  if (line.kind == LineKind::skip) return line.cause;
  return line.error.empty() ? line.path : line.error;
}

}  // namespace

void write_csv(std::span<const RunRecord> runs,
               const std::function<void(std::string_view)>& write) {
  std::string piece = "run,kind,step";
  for (std::size_t i = 0; i < kQuantities; ++i) piece += fmt::format(",{}", name_of(Quantity(i)));
  piece += ",text\n";
  for (const RunRecord& run : runs) {
    const std::string name = csv_name(run.folder);
    const std::string file = (std::filesystem::path(run.folder) / "metrics.jsonl").string();
    if (!is_there(file)) continue;
    read_metrics(file, [&](const MetricsLine& line) {
      auto end = fmt::format_to(
          std::back_inserter(piece), "{},{},{}", name, line_kind_name(line.kind), line.step);
      for (const double value : line.values)
        end = std::isnan(value) ? fmt::format_to(end, ",") : fmt::format_to(end, ",{}", value);
      fmt::format_to(end, ",{}\n", csv_name(text_of(line)));
      if (piece.size() < kPiece) return;
      write(piece);
      piece.clear();
    });
  }
  write(piece);
}

}  // namespace lockstep::report
