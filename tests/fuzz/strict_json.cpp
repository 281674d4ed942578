// SPDX-License-Identifier: Apache-2.0
// The reader of JSON under state.json, manifest.json and safetensors headers.
#include "core/io/strict_json.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::run_parser(bytes, [&] {
    constexpr int kMaxDepth = 4;
    const nlohmann::json value =
        io::parse_strict_json(fuzz::as_text(data, bytes), "input", kMaxDepth);
    fuzz::require(io::parse_strict_json(value.dump(), "again", kMaxDepth) == value,
                  "JSON changed when written again");
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 8'000'000;
  std::string keys = "{";
  for (int i = 0; keys.size() < kBytes; ++i) keys += fmt::format("\"{}\":0,", i);
  return {"[" + repeated("[],", kBytes) + "0]",
          "[" + repeated("{},", kBytes) + "0]",
          "[" + repeated("0,", kBytes) + "0]",
          "[" + repeated("\"\",", kBytes) + "0]",
          repeated("[", kBytes),
          repeated("{\"\":", kBytes),
          keys + "\"\":0}"};
}

}  // namespace lockstep::fuzz
