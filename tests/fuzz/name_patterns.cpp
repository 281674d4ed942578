// SPDX-License-Identifier: Apache-2.0
// Regular expressions for parameter names: compiled, and looked for in a few of them.
#include "core/base/text/name_patterns.h"

#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string pattern(fuzz::as_text(data, bytes));
  fuzz::run_parser(bytes, [&] {
    const NamePatterns patterns("--freeze", {pattern});
    const std::vector<std::string> names{
        "", "fc.bias", "layer1.0.conv1.weight", std::string(60, 'a')};
    for (const std::string& name : names) (void)patterns.match(name);
    patterns.expect_matches(names);
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  return {repeated("(", 1'000'000), repeated("a", 1'000'000), repeated("(a*)*", 900) + "b"};
}

}  // namespace lockstep::fuzz
