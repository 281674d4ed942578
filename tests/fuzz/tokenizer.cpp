// SPDX-License-Identifier: Apache-2.0
// tokenizer.json of Hugging Face's: what is taken is written again alike, and encodes a text.
#include "core/io/tokenizer/tokenizer_file.h"
#include "lockstep/error.h"
#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(fuzz::as_text(data, bytes));
  // Twice 16 bytes of memory for each of the file: what tokenizer_file.cpp allows.
  fuzz::run_parser(16 * bytes, [&] {
    const data::Tokenizer tokenizer = io::parse_tokenizer(text, "tokenizer.json");
    const data::Tokenizer again = io::parse_tokenizer(io::to_json(tokenizer), "written");
    fuzz::require(again.fingerprint() == tokenizer.fingerprint(),
                  "the tokenizer changed when written again");
    const std::string words = " ab abab'lL 12345 !\n\n x<|endoftext|>\xC3\xA9";
    fuzz::require(again.encode(words) == tokenizer.encode(words), "other tokens");
  });
  return 0;
}
