// SPDX-License-Identifier: Apache-2.0
// Text as tokens; characters that are decoded must encode to the same bytes.
#include "core/base/text/utf8.h"
#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

namespace {

void check_characters(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = decode_utf8(text, at);
    if (character.bytes == 0) return;
    const auto bytes = std::size_t(character.bytes);
    fuzz::require(
        at + bytes <= text.size() && encode_utf8(character.code) == text.substr(at, bytes),
        "a character changed when written again");
    at += bytes;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  check_characters(fuzz::as_text(data, bytes));
  file.write(data, bytes);
  fuzz::run_parser(bytes, [&] {
    data::OpenOptions options;
    options.context = 8;
    fuzz::load_samples(data::text(file.path(), options));
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  return {repeated("line\n", 32'000'000), repeated("a", 32'000'000)};
}

}  // namespace lockstep::fuzz
