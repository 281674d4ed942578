// SPDX-License-Identifier: Apache-2.0
// manifest.json of a checkpoint, as it is and with the seal that fits it.
#include "core/io/checkpoint/manifest.h"

#include "core/base/sha256.h"
#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

namespace {

void parse(const std::string& text) {
  const io::Manifest manifest = io::parse_manifest("manifest.json", text);
  fuzz::require(io::to_text(manifest) == text, "the manifest changed when written again");
  for (const auto& [name, file] : manifest.files)
    fuzz::require(io::is_file_name(name), "a file outside of the checkpoint");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(fuzz::as_text(data, bytes));
  fuzz::run_parser(bytes, [&] { parse(text); });
  // Few inputs would have the right SHA-256: it is put in place of whatever stands there.
  const std::string body = text.substr(0, text.rfind(",\"sha256\":"));
  const std::string seal = ",\"sha256\":\"" + sha256_of(body + "}") + "\"}";
  fuzz::run_parser(bytes, [&] { parse(body + seal); });
  return 0;
}
