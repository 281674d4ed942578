// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/token_text.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <unordered_map>

#include "core/base/utf8.h"

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

}  // namespace

EncodedText encode_text(std::string_view text, const data::Preprocessing& trained) {
  const std::vector<std::string>& names = trained.class_names;
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

}  // namespace lockstep
