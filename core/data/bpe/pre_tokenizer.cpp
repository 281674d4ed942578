// SPDX-License-Identifier: Apache-2.0
#include "core/data/bpe/pre_tokenizer.h"

#include <algorithm>
#include <array>

#include "core/base/utf8.h"
#include "core/data/bpe/character_class.h"

namespace lockstep::data {
namespace {

struct ClassifiedCharacter {
  CharacterClass kind = CharacterClass::other;
  std::size_t bytes = 0;
};

std::array<CharacterClass, 128> ascii_classes() {
  std::array<CharacterClass, 128> classes{};
  for (std::uint32_t code = 0; code < classes.size(); ++code) classes[code] = character_class(code);
  return classes;
}

ClassifiedCharacter character_at(std::string_view text, std::size_t at) {
  static const std::array<CharacterClass, 128> ascii = ascii_classes();
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) [[likely]]
    return {ascii[byte], 1};
  const Utf8Character character = decode_utf8(text, at);
  // Of bytes that are not UTF-8, against what is promised, each is a character.
  return {character_class(character.code), std::size_t(std::max(character.bytes, 1))};
}

/// Where the run of characters of `kind` ends that goes through `at`, and where its last begins.
struct Run {
  std::size_t last = 0, end = 0;
};
Run run_from(std::string_view text, std::size_t at, CharacterClass kind) {
  Run run{at, at};
  while (run.end < text.size()) {
    const ClassifiedCharacter next = character_at(text, run.end);
    if (next.kind != kind) break;
    run.last = run.end;
    run.end += next.bytes;
  }
  return run;
}

/// Bytes of 's 't 'm 'd 're 've 'll at `at`; 0: none of them.
std::size_t contraction(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

/// Whether a word ends between two characters whatever is around them.
bool is_cut(CharacterClass before, CharacterClass after) {
  if (before == CharacterClass::space) return false;
  if (after == CharacterClass::space) return true;
  return before != CharacterClass::other && before != after;
}

}  // namespace

std::size_t word_end(std::string_view text, std::size_t at) {
  if (text[at] == '\'')
    if (const std::size_t bytes = contraction(text, at); bytes > 0) return at + bytes;
  const ClassifiedCharacter first = character_at(text, at);
  if (first.kind != CharacterClass::space) return run_from(text, at + first.bytes, first.kind).end;
  if (text[at] == ' ' && at + 1 < text.size()) {
    const ClassifiedCharacter next = character_at(text, at + 1);
    if (next.kind != CharacterClass::space)
      return run_from(text, at + 1 + next.bytes, next.kind).end;
  }
  const Run spaces = run_from(text, at, CharacterClass::space);
  // The last of several spaces before a word is left to it.
  return spaces.end < text.size() && spaces.last > at ? spaces.last : spaces.end;
}

std::size_t last_cut(std::string_view text, std::size_t at_least) {
  std::size_t end = text.size();
  CharacterClass after = CharacterClass::space;
  bool has_after = false;
  while (end > at_least) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const CharacterClass before = character_at(text, begin).kind;
    if (has_after && is_cut(before, after)) return end;
    after = before;
    has_after = true;
    end = begin;
  }
  return std::string_view::npos;
}

std::size_t first_cut(std::string_view text, std::size_t at) {
  // From the begin of a character.
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  std::size_t begin = at;
  if (begin > 0)
    for (--begin; begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80;) --begin;
  while (begin < text.size()) {
    const ClassifiedCharacter before = character_at(text, begin);
    const std::size_t next = begin + before.bytes;
    if (next < text.size() && next >= at && is_cut(before.kind, character_at(text, next).kind))
      return next;
    begin = next;
  }
  return std::string_view::npos;
}

}  // namespace lockstep::data
