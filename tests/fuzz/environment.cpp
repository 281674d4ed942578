// SPDX-License-Identifier: Apache-2.0
// Environment variables, NAME=VALUE a line: Lockstep's own and those of launchers.
#include "core/base/env.h"
#include "parallel/session/rank_discovery.h"
#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

namespace {

VariableMap variables_of(std::string_view text) {
  VariableMap variables;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals != line.npos) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const VariableMap variables = variables_of(fuzz::as_text(data, bytes));
  fuzz::run_parser(bytes, [&] { (void)parse_env(variables); });
  fuzz::run_parser(bytes, [&] {
    const RankDiscovery place = discover_rank(variables);
    fuzz::require(place.rank >= 0 && place.size >= 0 && place.local_rank >= -1 &&
                      (place.size == 0 || place.rank < place.size),
                  "an impossible rank");
    check_against_mpi(place, 1, 2);
  });
  fuzz::run_parser(bytes, [&] { fuzz::require(launched_rank(variables) >= 0, "a negative rank"); });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  return {"LOCKSTEP_" + repeated("RANK", 1'000'000) + "=1",
          "LOCKSTEP_RANK=" + repeated("1", 1'000'000)};
}

}  // namespace lockstep::fuzz
