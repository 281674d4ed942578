// SPDX-License-Identifier: Apache-2.0
#include "core/io/tokenizer/pre_tokenizer_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/parameter_names.h"
#include "core/data/bpe/word_patterns.h"
#include "core/io/tokenizer/json_members.h"
#include "lockstep/error.h"

namespace lockstep::io {
namespace {

using data::WordPattern;
using nlohmann::json;
using nlohmann::ordered_json;

std::string types_of(const std::vector<const json*>& parts) {
  std::string types;
  for (const json* part : parts)
    types += fmt::format("{}{}", types.empty() ? "" : ", ", as_written(type_of(*part)));
  return types;
}

/// The parts of a Sequence, or the one that there is.
std::vector<const json*> parts_of(const json& part) {
  if (type_of(part) != "Sequence") return {&part};
  std::vector<const json*> parts;
  if (const json& list = member(part, "pretokenizers"); list.is_array())
    for (const json& entry : list) parts.push_back(&entry);
  return parts;
}

WordPattern pattern_of_split(const json& split, const std::string& where) {
  const json& pattern = member(split, "pattern");
  const json& regex = pattern.is_object() ? member(pattern, "Regex") : json();
  if (!regex.is_string())
    refuse_tokenizer(where, "a Split pre-tokenizer without a regular expression ('Regex') is");
  const json& behavior = member(split, "behavior");
  // To remove what no match covers cuts alike: the known patterns cover every text.
  const char* const cuts = is_off(split, "invert") ? "Isolated" : "Removed";
  if (!behavior.is_string() || behavior.get_ref<const std::string&>() != cuts)
    refuse_tokenizer(where,
                     "a Split pre-tokenizer other than 'Isolated', or 'Removed' and inverted, is");
  const auto& text = regex.get_ref<const std::string&>();
  const auto found = data::pattern_of_text(text);
  if (!found)
    refuse_tokenizer(where,
                     fmt::format("the pattern '{}' of the Split pre-tokenizer is",
                                 as_written(text.substr(0, 400))));
  return *found;
}

}  // namespace

void refuse_tokenizer(const std::string& where, const std::string& what) {
  throw DataError(fmt::format("{}: {} not supported", as_written(where), what),
                  fmt::format("Lockstep reads byte-level BPE with known patterns ({}); texts that "
                              "another program tokenized are trained on with --data tokens:FILE",
                              data::kKnownPatterns));
}

void read_pre_tokenizer(const json& part, const std::string& where, data::BytePairs& pairs) {
  const std::vector<const json*> parts = parts_of(part);
  if (parts.empty() || parts.size() > 2 || type_of(*parts.back()) != "ByteLevel")
    refuse_tokenizer(where,
                     type_of(part) == "Sequence"
                         ? fmt::format("a sequence of the pre-tokenizers {} is", types_of(parts))
                         : fmt::format("the pre-tokenizer '{}' is", as_written(type_of(part))));
  const json& level = *parts.back();
  const bool has_pattern = member(level, "use_regex").is_null() || !is_off(level, "use_regex");
  pairs.add_prefix_space = !is_off(level, "add_prefix_space");
  if (parts.size() == 1) {
    if (!has_pattern)
      refuse_tokenizer(where, "a ByteLevel pre-tokenizer without its pattern (use_regex) is");
    pairs.pattern = WordPattern::gpt2;
    return;
  }
  const json& first = *parts.front();
  const std::string type = type_of(first);
  if (type == "Digits") {
    if (is_off(first, "individual_digits"))
      refuse_tokenizer(where, "a Digits pre-tokenizer without individual_digits is");
    if (!has_pattern)
      refuse_tokenizer(where, "a ByteLevel pre-tokenizer without its pattern (use_regex) is");
    pairs.pattern = WordPattern::digits;
  } else if (type == "Split") {
    if (has_pattern)
      refuse_tokenizer(where,
                       "a ByteLevel pre-tokenizer with its own pattern (use_regex) after Split is");
    pairs.pattern = pattern_of_split(first, where);
  } else {
    refuse_tokenizer(where, fmt::format("a sequence of the pre-tokenizers {} is", types_of(parts)));
  }
  // The library would put a space before each part that the first one leaves.
  if (pairs.add_prefix_space)
    refuse_tokenizer(where, fmt::format("add_prefix_space of ByteLevel after {} is", type));
}

ordered_json byte_level_json(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

ordered_json pre_tokenizer_json(const data::BytePairs& pairs) {
  if (pairs.pattern == WordPattern::gpt2) return byte_level_json(pairs.add_prefix_space);
  ordered_json first;
  if (pairs.pattern == WordPattern::digits)
    first = {{"type", "Digits"}, {"individual_digits", true}};
  else
    first = {{"type", "Split"},
             {"pattern", {{"Regex", data::pattern_text(pairs.pattern)}}},
             {"behavior", "Isolated"},
             {"invert", false}};
  ordered_json sequence{{"type", "Sequence"}};
  sequence["pretokenizers"] = ordered_json::array(
      {std::move(first),
       byte_level_json(pairs.add_prefix_space, pairs.pattern == WordPattern::digits)});
  return sequence;
}

}  // namespace lockstep::io
