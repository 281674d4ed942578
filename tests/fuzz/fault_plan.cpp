// SPDX-License-Identifier: Apache-2.0
// LOCKSTEP_FAULT, the faults that tests let a run play.
#include "core/base/fault_plan.h"

#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::run_parser(bytes, [&] { (void)parse_fault_plan(fuzz::as_text(data, bytes)); });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  return {repeated("rank=*,do=kill;", 1'000'000), repeated("rank", 1'000'000) + "=1"};
}

}  // namespace lockstep::fuzz
