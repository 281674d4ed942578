// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>

#include "core/base/env.h"
#include "launcher/commands/commands.h"
#include "launcher/report/output.h"
#include "launcher/settings/command_line.h"
#include "launcher/simulate/simulate_flags.h"
#include "launcher/simulate/simulate_report.h"
#include "launcher/simulate/step_timeline.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {

namespace {

/// Of `file`; nothing where it is empty. Throws ConfigError: what is there is something else.
std::unique_ptr<report::Output> output_for(const std::string& file,
                                           const report::Output::Kind& kind) {
  constexpr bool kReplacesItsLike = true;
  return file.empty() ? nullptr : std::make_unique<report::Output>(file, kind, kReplacesItsLike);
}

void finish(report::Output& output, const std::string& text) {
  output.write(text);
  output.finish();
}

}  // namespace

int simulate_command(const std::vector<std::string>& arguments) {
  env();
  if (discover_rank(process_variables()).rank > 0) return 0;  // rank 0 simulates all
  SimulateFlags flags = parse_simulate_flags(arguments);
  if (print_help(flags.help)) return 0;
  // Refused before hours of simulation.
  const auto page = output_for(flags.page, {"--page", report::kPageMark, false, "page"});
  const auto timeline = output_for(flags.timeline, {"--timeline", kTimelineMark, true, "timeline"});
  const std::vector<SimulatedRuns> runs = simulate_all(flags);
  const std::vector<SimulatedStorm> storms = simulate_storms(flags, runs.back());
  std::cout << (flags.json ? to_json(flags, runs, storms)
                           : to_text(flags, runs) + to_text(flags, storms))
            << std::flush;
  if (timeline) finish(*timeline, timeline_json(runs.back().timeline));
  if (page) finish(*page, simulate_page(flags, runs, storms));
  const bool all_held =
      std::ranges::all_of(runs, [](const SimulatedRuns& run) { return run.failures.empty(); });
  return all_held && held(storms) ? 0 : int(ExitCode::error);
}

}  // namespace lockstep
