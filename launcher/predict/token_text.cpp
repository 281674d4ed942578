// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/token_text.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <unordered_map>
#include <utility>

#include "core/base/text/utf8.h"
#include "lockstep/error.h"
#include "lockstep/tokens/tokenizer.h"

namespace lockstep {
namespace {

constexpr std::string_view kBetweenNumbers = " ,\t\r\n";

EncodedText encode_numbers(std::string_view text, int vocabulary) {
  EncodedText result;
  for (;;) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBetweenNumbers)));
    if (text.empty()) return result;
    const std::string_view word = text.substr(0, text.find_first_of(kBetweenNumbers));
    std::int32_t token = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (error != std::errc() || stop != word.data() + word.size() || token < 0 ||
        token >= vocabulary) {
      result.problem =
          fmt::format("'{}' is not a token from 0 to {}; this model's tokens have no text",
                      word.substr(0, 32),
                      vocabulary - 1);
      return result;
    }
    result.tokens.push_back(token);
    text.remove_prefix(word.size());
  }
}

/// Bytes at the end of `text` that may be the begin of a character.
std::size_t unfinished_character(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, text.size()); ++bytes) {
    const auto byte = static_cast<unsigned char>(text[text.size() - bytes]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const std::size_t promised = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return bytes < promised ? bytes : 0;
  }
  return 0;
}

EncodedText encode_with(const data::Tokenizer& tokenizer, std::string_view text) {
  try {
    return {.tokens = tokenizer.encode(text), .problem = ""};
  } catch (const DataError& wrong) {
    return {.tokens = {}, .problem = wrong.what()};
  }
}

}  // namespace

EncodedText encode_text(std::string_view text, const data::Preprocessing& trained) {
  const std::vector<std::string>& names = trained.class_names;
  if (trained.tokenizer) return encode_with(*trained.tokenizer, text);
  if (names.empty()) return encode_numbers(text, trained.samples.classes);
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < names.size(); ++i) numbers[names[i]] = std::int32_t(i);
  EncodedText result;
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character next = decode_utf8(text, offset);
    if (next.bytes == 0) {
      result.problem = fmt::format("invalid UTF-8 at byte {} (0x{:02x})",
                                   offset,
                                   unsigned(static_cast<unsigned char>(text[offset])));
      return result;
    }
    const std::string_view character = text.substr(offset, std::size_t(next.bytes));
    const auto found = numbers.find(character);
    if (found == numbers.end()) {
      result.problem = fmt::format(
          "the character '{}' at byte {} is not in the text that the model was trained "
          "on",
          character,
          offset);
      return result;
    }
    result.tokens.push_back(found->second);
    offset += character.size();
  }
  return result;
}

std::string TokenPrinter::add(std::int32_t token) {
  if (!trained_.tokenizer)
    return trained_.class_names.empty() ? std::to_string(token) + " "
                                        : trained_.class_names[std::size_t(token)];
  // A model's vocabulary may be larger than its tokenizer's.
  if (token < trained_.tokenizer->vocabulary())
    unfinished_ += trained_.tokenizer->decode(std::span(&token, 1));
  const std::size_t whole = unfinished_.size() - unfinished_character(unfinished_);
  const std::string text = to_valid_utf8(std::string_view(unfinished_).substr(0, whole));
  unfinished_.erase(0, whole);
  return text;
}

std::string TokenPrinter::finish() {
  return to_valid_utf8(std::exchange(unfinished_, std::string()));
}

}  // namespace lockstep
