// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/settings/command_line.h"
#include "launcher/status/run_status.h"

namespace lockstep {

int status_command(const std::vector<std::string>& arguments) {
  CLI::App app("How a run stands: processes, step, rate, last checkpoint and snapshot, faults.",
               "lockstep status");
  std::vector<std::string> runs;
  bool json = false;
  app.add_option("RUN", runs, "folders of runs, ended or not")->type_name("DIR")->required();
  app.add_flag("--json", json, "prints one JSON object a run instead of lines");
  if (print_help(parse_command_line(app, arguments))) return 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunStatus status = read_status(runs[i]);
    if (i > 0 && !json) std::cout << '\n';
    std::cout << (json ? to_json(status) : to_text(status, runs[i])) << std::flush;
  }
  return 0;
}

}  // namespace lockstep
