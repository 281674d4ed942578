// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl of a resumed run: what is kept of it once is kept again.
#include "launcher/output/metrics_file.h"

#include <fstream>
#include <iterator>

#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

std::string content_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFolder folder;
  static const std::string file = (folder.path() / "metrics.jsonl").string();
  std::ofstream(file, std::ios::binary) << fuzz::as_text(data, bytes);
  ResumeRecord resumed;
  resumed.step = 100;
  resumed.evaluated = true;
  fuzz::run_parser(bytes, [&] { keep_metrics_before(file, resumed); });
  const std::string kept = content_of(file);
  fuzz::require(kept.size() <= bytes, "the file grew");
  fuzz::run_parser(bytes, [&] { keep_metrics_before(file, resumed); });
  fuzz::require(content_of(file) == kept, "a line that was kept was dropped the second time");
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 8'000'000;
  return {
      "[" + repeated("[],", kBytes) + "0]\n", repeated("[", kBytes), repeated("{}\n", kBytes / 4)};
}

}  // namespace lockstep::fuzz
