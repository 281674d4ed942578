// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <iostream>
#include <optional>
#include <utility>

#include "launcher/commands/commands.h"
#include "launcher/report/csv.h"
#include "launcher/report/output.h"
#include "launcher/report/page.h"
#include "launcher/report/run_record.h"
#include "launcher/settings/command_line.h"
#include "lockstep/error.h"

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
  app.add_option("RUN",
                 flags.runs,
                 "folders of runs, ended or not, or a folder with runs in it; several are "
                 "compared")
      ->type_name("DIR");
  app.add_option("--out", flags.out, "the page to write (default: report.html in the first folder)")
      ->type_name("FILE.html");
  app.add_option("--csv", flags.csv, "also writes all logged lines of the runs as a table")
      ->type_name("FILE");
  app.add_flag("--force", flags.force, "writes over an earlier report and table");
}

void check_runs(const std::vector<std::string>& runs) {
  if (runs.size() > report::kMaxRuns)
    throw ConfigError(fmt::format("report: {} runs are more than the {} that one page compares",
                                  runs.size(),
                                  report::kMaxRuns),
                      "name fewer; --csv of several reports can be put together");
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      std::error_code ignored;
      if (runs[i] == runs[j] || fs::equivalent(runs[i], runs[j], ignored))
        throw ConfigError(fmt::format("report: {} and {} are the same run", runs[j], runs[i]),
                          "name each run once");
    }
}

/// What is read of the folders that were named.
struct FoundRuns {
  std::vector<report::RunRecord> runs;
  std::vector<std::string> skipped;  ///< "FOLDER: reason"
};

/// Folders directly below `parent` that have metrics.jsonl, the last changed ones where they are
/// more than a page compares, by name. The others become `skipped`.
std::vector<std::string> runs_below(const fs::path& parent, std::vector<std::string>& skipped) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (!entry.is_directory(error)) continue;
    const fs::path metrics = entry.path() / "metrics.jsonl";
    const fs::file_time_type changed = fs::last_write_time(metrics, error);
    if (error) {
      skipped.push_back(entry.path().string() + ": no metrics.jsonl");
    } else {
      found.emplace_back(changed, entry.path().string());
    }
  }
  std::ranges::sort(found, std::greater());
  std::vector<std::string> runs;
  for (const auto& [changed, run] : found)
    if (runs.size() < report::kMaxRuns) {
      runs.push_back(run);
    } else {
      skipped.push_back(
          fmt::format("{}: older than the {} that one page compares", run, runs.size()));
    }
  std::ranges::sort(runs);
  std::ranges::sort(skipped);
  return runs;
}

/// A single folder that is not a run stands for those in it.
FoundRuns find_runs(const std::vector<std::string>& folders) {
  FoundRuns found;
  if (folders.empty())
    throw ConfigError("report: expected the folder of a run", "for example lockstep report runs/a");
  std::vector<std::string> below;
  if (folders.size() == 1 && !report::holds_run(folders[0]))
    below = runs_below(folders[0], found.skipped);
  check_runs(below.empty() ? folders : below);
  if (below.empty())
    for (const std::string& folder : folders) found.runs.push_back(report::read_run(folder));
  for (const std::string& folder : below) {
    try {
      found.runs.push_back(report::read_run(folder));
    } catch (const DataError& damaged) {
      found.skipped.emplace_back(damaged.what());
    }
  }
  if (found.runs.empty())
    throw DataError(fmt::format("{}: no run in it can be read: {}", folders[0], found.skipped[0]));
  return found;
}

void print_found(const FoundRuns& found, const std::string& parent) {
  constexpr std::size_t kMaxNamed = 20;
  std::cout << fmt::format("runs       {} in {}\n", found.runs.size(), parent);
  for (std::size_t i = 0; i < std::min(found.skipped.size(), kMaxNamed); ++i)
    std::cout << fmt::format("skipped    {}\n", found.skipped[i]);
  if (found.skipped.size() > kMaxNamed)
    std::cout << fmt::format("skipped    {} more\n", found.skipped.size() - kMaxNamed);
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
  const FoundRuns found = find_runs(flags.runs);
  const std::vector<report::RunRecord>& runs = found.runs;
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
  if (runs[0].folder != flags.runs[0]) print_found(found, flags.runs[0]);
  for (const report::RunRecord& run : runs)
    for (const std::string& note : run.notes)
      std::cout << fmt::format("note       {}: {}\n", run.folder, note);
  std::cout << fmt::format("report     {}, {:.1f} kB\n", out.string(), double(html.size()) * 1e-3);
  if (table) std::cout << fmt::format("table      {}\n", flags.csv);
  std::cout << std::flush;
  return 0;
}

}  // namespace lockstep
