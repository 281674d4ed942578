// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>

#include "core/base/env.h"
#include "core/io/output_file.h"
#include "launcher/commands/commands.h"
#include "launcher/settings/command_line.h"
#include "launcher/simulate/simulate_flags.h"
#include "launcher/simulate/simulate_report.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {

int simulate_command(const std::vector<std::string>& arguments) {
  env();
  if (discover_rank(process_variables()).rank > 0) return 0;  // rank 0 simulates all
  SimulateFlags flags = parse_simulate_flags(arguments);
  if (print_help(flags.help)) return 0;
  const std::vector<SimulatedRuns> runs = simulate_all(flags);
  const std::vector<SimulatedStorm> storms = simulate_storms(flags, runs.back());
  std::cout << (flags.json ? to_json(flags, runs, storms)
                           : to_text(flags, runs) + to_text(flags, storms))
            << std::flush;
  if (!flags.page.empty()) io::replace_file(flags.page, simulate_page(flags, runs, storms));
  const bool all_held =
      std::ranges::all_of(runs, [](const SimulatedRuns& run) { return run.failures.empty(); });
  return all_held && held(storms) ? 0 : int(ExitCode::error);
}

}  // namespace lockstep
