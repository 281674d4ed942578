// SPDX-License-Identifier: Apache-2.0
// What a supervisor reads of a run's folder, which may hold anything: summary.json.
#include "launcher/launch/run_progress.h"

#include <cmath>

#include "tests/fuzz/input_file.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  static const fuzz::InputFolder folder;
  static const bool linked = [] {
    folder.link("summary.json", file);
    return true;
  }();
  if (!linked) return 0;
  file.write(data, bytes);
  fuzz::run_parser(bytes, [&] {
    const RunProgress standing = glance_at(folder.path(), {7, 2.0});
    fuzz::require(standing.step == -1 && !std::isnan(standing.trained_s), "not what is there");
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 8'000'000;
  return {"[" + repeated("[],", kBytes) + "0]", repeated("[", kBytes)};
}

}  // namespace lockstep::fuzz
