// SPDX-License-Identifier: Apache-2.0
#include "core/data/bpe/character_class.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace lockstep::data {
namespace {

/// Begins of runs of one class: code << 2 | class, ascending.
constexpr std::uint32_t kRanges[] = {
#include "core/data/bpe/character_ranges.inc"
};

// Note [A table of our own]: ICU and PCRE2 know these classes too, each system's packages in
// another version of Unicode (Debian 12 has 15.0 and 14.0). The class decides where a text is cut,
// so that one text would become other tokens on another system. The table makes them equal
// everywhere, and equal to those of Hugging Face's tokenizers, whose version it has.

constexpr std::uint32_t kCodes = 0x110000;

std::vector<CharacterClass> expand() {
  std::vector<CharacterClass> classes(kCodes);
  for (const std::uint32_t* range = std::begin(kRanges); range != std::end(kRanges); ++range) {
    const std::uint32_t end = range + 1 == std::end(kRanges) ? kCodes : range[1] >> 2;
    std::fill(classes.begin() + (*range >> 2), classes.begin() + end, CharacterClass(*range & 3));
  }
  return classes;
}

}  // namespace

CharacterClass character_class(std::uint32_t code) {
  static const std::vector<CharacterClass> classes = expand();
  return code < kCodes ? classes[code] : CharacterClass::other;
}

}  // namespace lockstep::data
