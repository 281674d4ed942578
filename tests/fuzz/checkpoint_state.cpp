// SPDX-License-Identifier: Apache-2.0
// state.json of a checkpoint; what is read must read the same when it is written again.
#include "core/io/checkpoint/checkpoint_state.h"

#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::run_parser(bytes, [&] {
    const io::CheckpointState state = io::parse_state("state.json", fuzz::as_text(data, bytes));
    fuzz::require(state.step >= 0 && state.samples >= 0 && state.best_step >= -1,
                  "a negative count");
    const std::string text = io::to_text(state);
    const io::CheckpointState again = io::parse_state("again.json", text);
    fuzz::require(io::to_text(again) == text && again.settings == state.settings,
                  "the state changed when written again");
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 8'000'000;
  return {R"({"settings":[)" + repeated("[],", kBytes) + "[]]}",
          R"({"settings":[)" + repeated(R"(["",""],)", kBytes) + R"(["",""]]})"};
}

}  // namespace lockstep::fuzz
