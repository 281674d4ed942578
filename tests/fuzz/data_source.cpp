// SPDX-License-Identifier: Apache-2.0
// What the command line says about a data source: "synthetic:" and whatever follows, unknown kinds,
// and lists of augmentations. Sources of files have targets of their own.
#include "lockstep/data/augment.h"
#include "lockstep/data/sources.h"
#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(fuzz::as_text(data, bytes));
  // Of synthetic samples the text itself chooses the size, up to 2^28 bytes; a few are kept.
  constexpr std::size_t kMaxSampleBytes = std::size_t{1} << 28;
  for (const char* kind : {"synthetic:", "glyphs:", "syntetic"})
    fuzz::run_parser(kMaxSampleBytes, [&] {
      const data::DataSplit split = data::open(kind + text);
      fuzz::require(split.train->size() >= 1, "a source without samples");
    });
  fuzz::run_parser(bytes, [&] {
    const data::Augmentation augmentation = data::parse_augmentation(text);
    const std::string again = augmentation.to_string();
    fuzz::require(data::parse_augmentation(again).to_string() == again,
                  "the list changed when written again");
  });
  return 0;
}
