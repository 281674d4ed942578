// SPDX-License-Identifier: Apache-2.0
#include "core/data/bpe/word_patterns.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

std::string_view pattern_name(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::gpt2:
      return "gpt2";
    case WordPattern::digits:
      return "digits";
    case WordPattern::llama3:
      return "llama3";
    case WordPattern::qwen2:
      return "qwen2";
  }
  return "";
}

std::string_view pattern_text(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::gpt2:
    case WordPattern::digits:
      return kGpt2;
    case WordPattern::llama3:
      return kLlama3;
    case WordPattern::qwen2:
      return kQwen2;
  }
  return "";
}

std::optional<WordPattern> pattern_of_text(std::string_view text) {
  for (const WordPattern pattern : {WordPattern::gpt2, WordPattern::llama3, WordPattern::qwen2})
    if (pattern_text(pattern) == text) return pattern;
  return std::nullopt;
}

}  // namespace lockstep::data
