// SPDX-License-Identifier: Apache-2.0
// preprocessing.json of a run: what is taken is written again alike.
#include "core/io/preprocessing_file.h"
#include "lockstep/data/preprocessing_file.h"
#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(fuzz::as_text(data, bytes));
  fuzz::run_parser(bytes, [&] {
    const std::string written = io::to_json(io::parse_preprocessing(text, "preprocessing.json"));
    fuzz::require(io::to_json(io::parse_preprocessing(written, "written")) == written,
                  "the record changed when written again");
  });
  return 0;
}
