// SPDX-License-Identifier: Apache-2.0
#include "core/io/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/data/bpe/byte_alphabet.h"
#include "core/data/bpe/tokenizer_model.h"
#include "core/data/input_file.h"
#include "core/io/strict_json.h"
#include "core/io/tokenizer/json_members.h"
#include "core/io/tokenizer/pre_tokenizer_json.h"

namespace lockstep::io {
namespace {

using data::AddedToken;
using data::BytePairs;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxDepth = 12;
/// Numbers of tokens may have gaps, of so many at most, so that a file cannot ask for much memory.
constexpr std::size_t kMaxGaps = 65536;
/// What the values of a file may take in memory for a byte of it. Merges as two tokens each,
/// without spaces between them, take 30; Llama 3's file of 280,147 merges as texts takes 7.
constexpr std::uint64_t kBytesOfMemory = 32;

/// Builds the parts of a tokenizer from the texts of a file.
class Builder {
 public:
  explicit Builder(std::string where) : where_(std::move(where)) {}

  void add_special(AddedToken token) {
    added_texts_.insert(token.text);
    pairs_.added.push_back(std::move(token));
  }
  /// For what is said of texts, not of tokens.
  BytePairs& pairs() { return pairs_; }

  void read_vocabulary(const json& vocabulary, const std::string& key) {
    check(vocabulary.is_object(), key, "an object of tokens and their numbers");
    reserve(vocabulary, key);
    for (const auto& [text, value] : vocabulary.items()) {
      const std::int32_t number = number_of(value, fmt::format("{}: '{}'", key, as_written(text)));
      std::string& token = pairs_.tokens[std::size_t(number)];
      check(token.empty(), key, fmt::format("one token for the number {}", number));
      token = bytes_of(text, key);
      check(!token.empty(), key, "tokens that are not empty");
      numbers_[token] = number;
    }
  }
  /// Added tokens may have numbers past the vocabulary.
  void place_added() {
    for (const AddedToken& token : pairs_.added)
      if (std::size_t(token.id) >= pairs_.tokens.size())
        pairs_.tokens.resize(std::size_t(token.id) + 1);
  }
  void add_merge(std::string_view left, std::string_view right, const std::string& place) {
    pairs_.merges.emplace_back(number_in_merge(left, place), number_in_merge(right, place));
  }
  data::Tokenizer build() {
    try {
      return data::Tokenizer(std::move(pairs_));
    } catch (const DataError& wrong) {
      throw DataError(fmt::format("{}: {}", as_written(where_), as_written(wrong.what())));
    }
  }

  void check(bool right, const std::string& key, const std::string& expected) const {
    LOCKSTEP_CHECK(right, DataError, "{}: '{}' must be {}", as_written(where_), key, expected);
  }
  std::int32_t number_of(const json& value, const std::string& key) const {
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() < most_;
    check(fits, key, fmt::format("a whole number from 0 to {}", most_ - 1));
    return value.get<std::int32_t>();
  }
  /// How many tokens there are limits their numbers.
  void allow(std::size_t tokens) { most_ = tokens + kMaxGaps; }

 private:
  void reserve(const json& vocabulary, const std::string& key) {
    std::size_t end = 0;
    for (const auto& [text, value] : vocabulary.items())
      end = std::max(end, std::size_t(number_of(value, key)) + 1);
    pairs_.tokens.resize(end);
  }
  std::string bytes_of(const std::string& text, const std::string& key) const {
    const auto bytes = data::from_byte_characters(text);
    if (bytes) return *bytes;
    check(added_texts_.contains(text),
          key,
          fmt::format("tokens written in the characters of bytes, as GPT-2's; got '{}'",
                      as_written(text)));
    return text;
  }
  std::int32_t number_in_merge(std::string_view text, const std::string& place) const {
    const auto bytes = data::from_byte_characters(text);
    const auto found = bytes ? numbers_.find(*bytes) : numbers_.end();
    LOCKSTEP_CHECK(found != numbers_.end(),
                   DataError,
                   "{}: {} merges '{}', which is not in the vocabulary",
                   as_written(where_),
                   place,
                   as_written(std::string(text)));
    return found->second;
  }

  std::string where_;
  BytePairs pairs_;
  std::size_t most_ = kMaxGaps;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::unordered_set<std::string> added_texts_;
};

class Reader {
 public:
  Reader(const json& file, const std::string& where)
      : file_(file), where_(where), builder_(where) {}

  data::Tokenizer read() {
    check(file_.is_object(), "the file", "an object");
    const json& model = member(file_, "model");
    check(model.is_object() && member(model, "vocab").is_object(),
          "model",
          "of the type BPE, with 'vocab' and 'merges'");
    builder_.allow(model["vocab"].size() + member(file_, "added_tokens").size());
    check_parts();
    read_added();
    check_model(model);
    builder_.read_vocabulary(model["vocab"], "model: vocab");
    builder_.place_added();
    read_merges(member(model, "merges"));
    return builder_.build();
  }

 private:
  void check(bool right, const std::string& key, const std::string& expected) const {
    builder_.check(right, key, expected);
  }
  [[noreturn]] void refuse(const std::string& what) const { refuse_tokenizer(where_, what); }

  void check_parts() {
    if (!member(file_, "normalizer").is_null())
      refuse(fmt::format("a normalizer ({}) is", as_written(type_of(file_["normalizer"]))));
    read_pre_tokenizer(member(file_, "pre_tokenizer"), where_, builder_.pairs());
    const json& decoder = member(file_, "decoder");
    if (!decoder.is_null() && type_of(decoder) != "ByteLevel")
      refuse(fmt::format("the decoder '{}' is", as_written(type_of(decoder))));
  }

  void check_model(const json& model) {
    const json& type = member(model, "type");
    if (!type.is_null() && type_of(model) != "BPE")
      refuse(fmt::format("the model '{}' is", as_written(type_of(model))));
    for (const char* key :
         {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
      if (!is_off(model, key)) refuse(fmt::format("'{}' of the model is", key));
    builder_.pairs().ignore_merges = !is_off(model, "ignore_merges");
  }

  void read_added() {
    const json& list = member(file_, "added_tokens");
    if (list.is_null()) return;
    check(list.is_array(), "added_tokens", "a list");
    for (const json& entry : list) {
      check(entry.is_object() && member(entry, "content").is_string(),
            "added_tokens",
            "objects with 'id' and 'content'");
      AddedToken token;
      token.text = entry["content"].get<std::string>();
      check(!token.text.empty(), "added_tokens: content", "not empty");
      token.id = builder_.number_of(member(entry, "id"), "added_tokens: id");
      token.special = !is_off(entry, "special");
      token.normalized = !is_off(entry, "normalized");
      for (const char* condition : {"single_word", "lstrip", "rstrip"})
        if (!is_off(entry, condition))
          refuse(fmt::format("'{}' of the added token '{}' is", condition, as_written(token.text)));
      builder_.add_special(std::move(token));
    }
  }

  void read_merges(const json& merges) {
    check(merges.is_array(), "model: merges", "a list");
    std::size_t number = 0;
    for (const json& merge : merges) {
      const std::string place = fmt::format("merge {}", number++);
      if (merge.is_string()) {
        const auto& text = merge.get_ref<const std::string&>();
        const std::size_t space = text.find(' ');
        check(space != text.npos && text.find(' ', space + 1) == text.npos,
              "model: merges",
              "of two tokens with a space between them");
        builder_.add_merge(std::string_view(text).substr(0, space),
                           std::string_view(text).substr(space + 1),
                           place);
        continue;
      }
      check(merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
            "model: merges",
            "of two tokens");
      builder_.add_merge(
          merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), place);
    }
  }

  const json& file_;
  const std::string& where_;
  Builder builder_;
};

ordered_json added_json(const BytePairs& pairs) {
  std::vector<AddedToken> sorted = pairs.added;
  std::ranges::sort(sorted, {}, &AddedToken::id);
  ordered_json added = ordered_json::array();
  for (const AddedToken& token : sorted)
    added.push_back({{"id", token.id},
                     {"content", token.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  return added;
}

/// As text, since an ordered object of the library looks at all its keys for each that is added.
std::string model_json(const BytePairs& pairs) {
  std::vector<std::string> texts(pairs.tokens.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    texts[i] = data::to_byte_characters(pairs.tokens[i]);
  for (const AddedToken& token : pairs.added)
    if (!pairs.tokens[std::size_t(token.id)].empty()) texts[std::size_t(token.id)] = token.text;
  std::string text = fmt::format(R"({{
  "type": "BPE",
  "dropout": null,
  "unk_token": null,
  "continuing_subword_prefix": null,
  "end_of_word_suffix": null,
  "fuse_unk": false,
  "byte_fallback": false,
  "ignore_merges": {},
  "vocab": {{)",
                                 pairs.ignore_merges);
  const char* separator = "\n";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    text += fmt::format("{}   {}: {}", separator, json(texts[i]).dump(), i);
    separator = ",\n";
  }
  text += "\n  },\n  \"merges\": [";
  separator = "\n";
  for (const auto& [left, right] : pairs.merges) {
    const json merge = data::to_byte_characters(pairs.tokens[std::size_t(left)]) + " " +
                       data::to_byte_characters(pairs.tokens[std::size_t(right)]);
    text += fmt::format("{}   {}", separator, merge.dump());
    separator = ",\n";
  }
  return text + "\n  ]\n }";
}

std::string read_text(const std::filesystem::path& file) {
  return data::read_text_file(file.string(), "a tokenizer of Hugging Face's has it");
}

}  // namespace

std::string to_json(const data::Tokenizer& tokenizer) {
  const BytePairs& pairs = tokenizer.pairs();
  const ordered_json file{{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added_json(pairs)},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", pre_tokenizer_json(pairs)},
                          {"post_processor", nullptr},
                          {"decoder", byte_level_json(false)}};
  std::string text = file.dump(1);
  text.resize(text.size() - 2);  // the end of the line and of the object
  return text + ",\n \"model\": " + model_json(pairs) + "\n}\n";
}

data::Tokenizer parse_tokenizer(std::string_view text, const std::string& where) {
  return Reader(parse_strict_json(text, where, kMaxDepth, kBytesOfMemory * text.size()), where)
      .read();
}

data::Tokenizer parse_vocabulary(std::string_view vocabulary_json,
                                 const std::string& vocabulary_file,
                                 std::string_view merges,
                                 const std::string& merges_file) {
  const json vocabulary = parse_strict_json(
      vocabulary_json, vocabulary_file, 2, kBytesOfMemory * vocabulary_json.size());
  Builder builder(vocabulary_file);
  builder.allow(vocabulary.size());
  if (vocabulary.is_object() && vocabulary.contains(data::kEndOfText))
    builder.add_special({.text = data::kEndOfText,
                         .id = builder.number_of(vocabulary[data::kEndOfText], data::kEndOfText)});
  builder.read_vocabulary(vocabulary, "the vocabulary");
  std::size_t line = 0;
  while (!merges.empty()) {
    const std::size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view text = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    const std::string place = fmt::format("line {} of {}", ++line, merges_file);
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty() || text.starts_with("#version")) continue;
    const std::size_t space = text.find(' ');
    LOCKSTEP_CHECK(space != text.npos && text.find(' ', space + 1) == text.npos,
                   DataError,
                   "{} line {}: expected two tokens with a space between them, got '{}'",
                   as_written(merges_file),
                   line,
                   as_written(std::string(text.substr(0, 80))));
    builder.add_merge(text.substr(0, space), text.substr(space + 1), place);
  }
  return builder.build();
}

data::Tokenizer read_tokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  if (!is_folder(path)) return parse_tokenizer(read_text(path), path);
  if (const fs::path file = fs::path(path) / kTokenizerFile; is_there(file))
    return parse_tokenizer(read_text(file), file.string());
  const fs::path vocabulary = fs::path(path) / "vocab.json", merges = fs::path(path) / "merges.txt";
  if (!is_there(vocabulary) || !is_there(merges))
    throw DataError(fmt::format("{}: there is neither tokenizer.json nor vocab.json and merges.txt",
                                as_written(path)),
                    "Hugging Face's folders of models hold them");
  return parse_vocabulary(
      read_text(vocabulary), vocabulary.string(), read_text(merges), merges.string());
}

}  // namespace lockstep::io
