// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/mpirun_version.h"

#include <charconv>

#include "launcher/processes/program_output.h"
#include "lockstep/error.h"

namespace lockstep {

MpirunVersion mpirun_version(std::string_view printed) {
  constexpr std::string_view kName = "(Open MPI) ";
  MpirunVersion version;
  const std::size_t name = printed.find(kName);
  if (name != std::string_view::npos) {
    printed.remove_prefix(name + kName.size());
    std::from_chars(printed.data(), printed.data() + printed.size(), version.open_mpi);
  } else if (printed.find("Intel(R) MPI") != std::string_view::npos) {
    version.other = "Intel MPI";
  } else if (printed.find("HYDRA") != std::string_view::npos) {
    version.other = "MPICH";  // or one that is made of it
  }
  return version;
}

MpirunVersion mpirun_version_of(const std::string& mpirun) {
  constexpr double kSeconds = 10;
  try {
    const ProgramOutput answer = run_program({mpirun, "--version"}, kSeconds);
    return answer.exit_code == 0 ? mpirun_version(answer.output) : MpirunVersion{};
  } catch (const EnvironmentError&) {
    return {};  // who starts it says why
  }
}

}  // namespace lockstep
