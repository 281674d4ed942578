// SPDX-License-Identifier: Apache-2.0
#include "core/data/bpe/pre_tokenizer.h"

#include <algorithm>
#include <array>

#include "core/base/text/utf8.h"
#include "core/data/bpe/character_class.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kNoLimit = std::string_view::npos;

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

bool is_line_break(char byte) { return byte == '\n' || byte == '\r'; }

/// Where the run of characters of `kind` ends that goes through `at`, of at most so many, and where
/// its last begins.
struct Run {
  std::size_t last = 0, end = 0;
};
Run run_from(std::string_view text,
             std::size_t at,
             CharacterClass kind,
             std::size_t max_count = kNoLimit) {
  Run run{at, at};
  for (; run.end < text.size() && max_count > 0; --max_count) {
    const ClassifiedCharacter next = character_at(text, run.end);
    if (next.kind != kind) break;
    run.last = run.end;
    run.end += next.bytes;
  }
  return run;
}

std::size_t line_breaks_end(std::string_view text, std::size_t at) {
  while (at < text.size() && is_line_break(text[at])) ++at;
  return at;
}

/// Bytes of 's 't 'm 'd 're 've 'll at `at`; 0: none of them.
std::size_t contraction(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

/// The same in letters of both cases: of an s, U+017F too is one (CaseFolding.txt of Unicode).
std::size_t contraction_of_any_case(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest == "\u017F") return 3;
  std::array<char, 3> lower{'\'', '\0', '\0'};
  for (std::size_t i = 0; i < rest.size(); ++i)
    lower[i + 1] = rest[i] >= 'A' && rest[i] <= 'Z' ? char(rest[i] - 'A' + 'a') : rest[i];
  return contraction({lower.data(), rest.size() + 1}, 0);
}

/// What Digits of Hugging Face's takes for one. Its library has them from Rust, of Unicode 17.0,
/// while its patterns have those of 16.0.
bool is_apart(std::string_view text, std::size_t at, const ClassifiedCharacter& character) {
  if (character.kind == CharacterClass::number) return true;
  if (character.kind != CharacterClass::other || character.bytes < 4) return false;
  const std::uint32_t code = decode_utf8(text, at).code;
  return (code >= 0x11DE0 && code <= 0x11DE9) || (code >= 0x16FF4 && code <= 0x16FF6);
}

/// GPT-2's pattern in a text.
std::size_t gpt2_end(std::string_view text, std::size_t at) {
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

/// Where the run of `kind` ends that goes through `at`, without what is_apart(): a character is
/// looked at once, also where signs and such characters take turns.
std::size_t run_end_between_digits(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const ClassifiedCharacter next = character_at(text, at);
    if (next.kind != kind || is_apart(text, at, next)) break;
    at += next.bytes;
  }
  return at;
}

/// GPT-2's pattern in what lies between digits.
std::size_t digits_end(std::string_view text, std::size_t at) {
  const ClassifiedCharacter first = character_at(text, at);
  if (is_apart(text, at, first)) return at + first.bytes;
  if (text[at] == '\'')
    if (const std::size_t bytes = contraction(text, at); bytes > 0) return at + bytes;
  if (first.kind != CharacterClass::space)
    return run_end_between_digits(text, at + first.bytes, first.kind);
  if (text[at] == ' ' && at + 1 < text.size()) {
    const ClassifiedCharacter next = character_at(text, at + 1);
    if (next.kind != CharacterClass::space && !is_apart(text, at + 1, next))
      return run_end_between_digits(text, at + 1 + next.bytes, next.kind);
  }
  const Run spaces = run_from(text, at, CharacterClass::space);
  if (spaces.end == text.size() || spaces.last == at) return spaces.end;
  // The last of several spaces before a word is left to it, and digits are none.
  return is_apart(text, spaces.end, character_at(text, spaces.end)) ? spaces.end : spaces.last;
}

/// Llama 3's pattern, with so many digits in a word.
std::size_t llama_end(std::string_view text, std::size_t at, std::size_t max_digits) {
  if (text[at] == '\'')
    if (const std::size_t bytes = contraction_of_any_case(text, at); bytes > 0) return at + bytes;
  const ClassifiedCharacter first = character_at(text, at);
  const std::size_t second_at = at + first.bytes;
  if (first.kind == CharacterClass::letter) return run_from(text, second_at, first.kind).end;
  if (first.kind == CharacterClass::number) return run_from(text, at, first.kind, max_digits).end;
  const bool has_second = second_at < text.size();
  const CharacterClass second =
      has_second ? character_at(text, second_at).kind : CharacterClass::space;
  if (second == CharacterClass::letter && !is_line_break(text[at]))
    return run_from(text, second_at, second).end;
  if (first.kind == CharacterClass::other || (text[at] == ' ' && second == CharacterClass::other))
    return line_breaks_end(text, run_from(text, second_at, CharacterClass::other).end);
  const Run spaces = run_from(text, at, CharacterClass::space);
  for (std::size_t end = spaces.end; end > at; --end)
    if (is_line_break(text[end - 1])) return end;
  return spaces.end < text.size() && spaces.last > at ? spaces.last : spaces.end;
}

/// A character by what is_cut() has to know.
struct Neighbour {
  CharacterClass kind = CharacterClass::space;
  bool is_line_break = false;
};

/// Whether a word ends between two characters whatever is around them.
bool is_cut(const Neighbour& before, const Neighbour& after, WordPattern pattern) {
  const bool breaks_end_words = pattern == WordPattern::llama3 || pattern == WordPattern::qwen2;
  if (before.kind == CharacterClass::space)
    return breaks_end_words && before.is_line_break && after.kind != CharacterClass::space;
  if (before.kind == CharacterClass::number && after.kind == CharacterClass::number)
    return pattern == WordPattern::digits || pattern == WordPattern::qwen2;
  const bool is_sign = before.kind == CharacterClass::other;
  if (after.kind == CharacterClass::space)
    return !(breaks_end_words && is_sign && after.is_line_break);
  return !is_sign && before.kind != after.kind;
}

}  // namespace

std::size_t word_end(std::string_view text, std::size_t at, WordPattern pattern) {
  switch (pattern) {
    case WordPattern::gpt2:
      return gpt2_end(text, at);
    case WordPattern::digits:
      return digits_end(text, at);
    case WordPattern::llama3:
      return llama_end(text, at, 3);
    case WordPattern::qwen2:
      return llama_end(text, at, 1);
  }
  return text.size();
}

std::size_t last_cut(std::string_view text, std::size_t at_least, WordPattern pattern) {
  std::size_t end = text.size();
  Neighbour after;
  bool has_after = false;
  while (end > at_least) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const Neighbour before{character_at(text, begin).kind, is_line_break(text[begin])};
    if (has_after && is_cut(before, after, pattern)) return end;
    after = before;
    has_after = true;
    end = begin;
  }
  return std::string_view::npos;
}

}  // namespace lockstep::data
