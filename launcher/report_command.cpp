// SPDX-License-Identifier: Apache-2.0
#include "launcher/report_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "core/base/error.h"
#include "launcher/command_line.h"
#include "launcher/report/csv.h"
#include "launcher/report/output.h"
#include "launcher/report/page.h"
#include "launcher/report/run_record.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::vector<std::string> runs;
  std::string out, csv;
  bool force = false;
};

constexpr report::Output::Kind kPage{"--out", report::kPageMark, false, "page"};
constexpr report::Output::Kind kCsv{"--csv", report::kCsvMark, true, "table"};

void declare(CLI::App& app, ReportFlags& flags) {
  app.add_option("RUN", flags.runs, "folders of runs, ended or not; several are compared");
  app.add_option("--out", flags.out, "the page to write (default: report.html in the first RUN)")
      ->type_name("FILE.html");
  app.add_option("--csv", flags.csv, "also writes all logged lines of the runs as a table")
      ->type_name("FILE");
  app.add_flag("--force", flags.force, "writes over an earlier report and table");
}

void check_runs(const ReportFlags& flags) {
  if (flags.runs.empty())
    throw ConfigError("report: expected the folder of a run", "for example lockstep report runs/a");
  if (flags.runs.size() > report::kMostRuns)
    throw ConfigError(fmt::format("report: {} runs are more than the {} that one page compares",
                                  flags.runs.size(),
                                  report::kMostRuns),
                      "name fewer; --csv of several reports can be put together");
  for (std::size_t i = 0; i < flags.runs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      std::error_code ignored;
      if (flags.runs[i] == flags.runs[j] || fs::equivalent(flags.runs[i], flags.runs[j], ignored))
        throw ConfigError(
            fmt::format("report: {} and {} are the same run", flags.runs[j], flags.runs[i]),
            "name each run once");
    }
}

/// Whatever the spelling. The last part is not followed where it is a link: writing replaces it.
bool name_one_file(const fs::path& a, const fs::path& b) {
  const auto whole = [](const fs::path& path) {
    std::error_code ignored;
    const fs::path absolute = fs::absolute(path, ignored);
    return fs::weakly_canonical(absolute.parent_path(), ignored) / absolute.filename();
  };
  std::error_code ignored;
  return whole(a) == whole(b) || fs::equivalent(a, b, ignored);
}

}  // namespace

int report_command(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Writes one HTML file about a run, or about several on top of one another; it needs no "
      "network.",
      "lockstep report");
  ReportFlags flags;
  declare(app, flags);
  if (print_help(parse_command_line(app, arguments))) return 0;
  check_runs(flags);
  std::vector<report::RunRecord> runs;
  for (const std::string& folder : flags.runs) runs.push_back(report::read_run(folder));
  const fs::path out =
      flags.out.empty() ? fs::path(flags.runs[0]) / "report.html" : fs::path(flags.out);
  if (!flags.csv.empty() && name_one_file(out, flags.csv))
    throw ConfigError(
        fmt::format("report: --out and --csv are both {}: {}", out.string(), flags.csv),
        "name two files");
  report::Output page(out, kPage, flags.force);
  std::optional<report::Output> table;
  if (!flags.csv.empty()) table.emplace(flags.csv, kCsv, flags.force);
  const std::string html = report::page_of(runs);
  page.write(html);
  if (table) report::write_csv(runs, [&](std::string_view piece) { table->write(piece); });
  if (table) table->finish();
  page.finish();
  for (const report::RunRecord& run : runs)
    for (const std::string& note : run.notes)
      std::cout << fmt::format("note       {}: {}\n", run.folder, note);
  std::cout << fmt::format("report     {}, {:.1f} kB\n", out.string(), double(html.size()) * 1e-3);
  if (table) std::cout << fmt::format("table      {}\n", flags.csv);
  std::cout << std::flush;
  return 0;
}

}  // namespace lockstep
