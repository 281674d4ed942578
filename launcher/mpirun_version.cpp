// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpirun_version.h"

#include <charconv>

#include "core/base/error.h"
#include "launcher/program_output.h"

namespace lockstep {

int open_mpi_version(std::string_view printed) {
  constexpr std::string_view kName = "(Open MPI) ";
  const std::size_t name = printed.find(kName);
  if (name == std::string_view::npos) return 0;
  printed.remove_prefix(name + kName.size());
  int version = 0;
  std::from_chars(printed.data(), printed.data() + printed.size(), version);
  return version;
}

int open_mpi_version_of(const std::string& mpirun) {
  constexpr double kSeconds = 10;
  try {
    const ProgramOutput answer = run_program({mpirun, "--version"}, kSeconds);
    return answer.exit_code == 0 ? open_mpi_version(answer.output) : 0;
  } catch (const EnvironmentError&) {
    return 0;  // who starts it says why
  }
}

}  // namespace lockstep
