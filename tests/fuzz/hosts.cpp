// SPDX-License-Identifier: Apache-2.0
// Lists of hosts, on the command line and in a file.
#include "launcher/launch/hosts.h"

#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

void check(const std::vector<Host>& hosts) {
  fuzz::require(!hosts.empty() && slots_of(hosts) >= 1, "no rank");
  for (const Host& host : hosts)
    fuzz::require(!host.name.empty() && host.name[0] != '-' && host.slots >= 1, "no host");
  const std::string text = to_string(hosts);
  fuzz::require(parse_hosts(text) == hosts, "hosts changed when written again: " + text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  const std::string text(fuzz::as_text(data, bytes));
  // Of a text that is a path, the file would be read.
  if (text.find('/') == text.npos) fuzz::run_parser(bytes, [&] { check(parse_hosts(text)); });
  file.write(data, bytes);
  fuzz::run_parser(bytes, [&] { check(parse_hosts(file.path())); });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  std::string lines;
  for (int i = 0; lines.size() < 1'000'000; ++i) lines += fmt::format("h{}\n", i);
  return {lines, repeated("a ", 1'000'000), repeated("a\n", 1'000'000)};
}

}  // namespace lockstep::fuzz
