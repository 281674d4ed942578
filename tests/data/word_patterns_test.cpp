// SPDX-License-Identifier: Apache-2.0
// Tokenizers with the patterns of SmolLM, Llama 3 and Qwen 2. The goldens are Hugging Face's:
// tests/reference/make_tokenizer_goldens.py.
#include <set>

#include "core/base/random.h"
#include "core/base/text/utf8.h"
#include "core/data/bpe/pre_tokenizer.h"
#include "core/io/tokenizer/tokenize.h"
#include "lockstep/error.h"
#include "tests/data/tokenizer_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;
using WordPatterns = TokenizerFixture;

TEST_F(WordPatterns, WordsAreThoseOfHuggingFacesPatterns) {
  const nlohmann::json cases = nlohmann::json::parse(golden("cases.json"));
  ASSERT_GT(cases.size(), 150u);
  for (const char* part : {"digits", "llama3", "qwen2"}) {
    const WordPattern pattern = tokenizer_with(part).pairs().pattern;
    std::size_t compared = 0;
    for (const auto& entry : cases) {
      const auto text = entry["text"].get<std::string>();
      const auto expected = entry[part].get<std::vector<std::size_t>>();
      if (expected.empty()) continue;  // it has added tokens, or is empty
      std::vector<std::size_t> words;
      for (std::size_t at = 0; at < text.size(); at += words.back())
        words.push_back(word_end(text, at, pattern) - at);
      EXPECT_EQ(words, expected) << part << ": " << text;
      ++compared;
    }
    EXPECT_GT(compared, 140u);
  }
}

TEST_F(WordPatterns, WordsThatAreTokensNeedNoMerges) {
  const Tokenizer ignored = with_ignored_merges();
  bool some_differ = false;
  const Tokenizer merged = tokenizer_with("llama3");
  for (const auto& entry : nlohmann::json::parse(golden("cases.json"))) {
    const auto text = entry["text"].get<std::string>();
    const auto expected = entry["ignored"].get<std::vector<std::int32_t>>();
    EXPECT_EQ(ignored.encode(text), expected) << text;
    some_differ |= merged.encode(text) != expected;
  }
  EXPECT_TRUE(some_differ);
}

TEST_F(WordPatterns, DecodingGivesTheTextOfAnyBytes) {
  std::vector<Tokenizer> tokenizers{with_ignored_merges()};
  for (const char* part : {"digits", "llama3", "qwen2"}) tokenizers.push_back(tokenizer_with(part));
  const std::string few = "ab '\n\r1S";
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::string bytes;
    for (std::uint64_t block = 0; block < 16; ++block)
      for (const std::uint32_t word : philox(seed, block, 0)) {
        // Of all bytes, and of those that patterns look at.
        bytes += seed % 2 == 0 ? char(word) : few[word % few.size()];
        bytes += char(0xC2 + (word >> 8) % 3);
        bytes += char(0x80 + (word >> 16) % 64);
      }
    const std::string text = to_valid_utf8(bytes);
    for (const Tokenizer& tokenizer : tokenizers)
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << seed;
  }
}

// Its 128,000 tokens and 280,147 merges, written as two texts each as newer versions do.
TEST_F(WordPatterns, AFileOfLlama3sSizeIsRead) {
  BytePairs pairs;
  for (int byte = 0; byte < 256; ++byte) pairs.tokens.emplace_back(1, char(byte));
  for (std::int32_t left = 0; left < 256; ++left)
    for (std::int32_t right = 0; right < 256; ++right) {
      pairs.tokens.push_back({char(left), char(right)});
      pairs.merges.emplace_back(left, right);
    }
  for (std::int32_t third = 0; pairs.tokens.size() < 128000; ++third) {
    const auto left = std::int32_t(256 + third % 65536), right = third / 65536;
    pairs.tokens.push_back(pairs.tokens[std::size_t(left)] + char(right));
    pairs.merges.emplace_back(left, right);
  }
  nlohmann::json file = nlohmann::json::parse(
      io::to_json(Tokenizer({.tokens = pairs.tokens, .merges = pairs.merges})));
  nlohmann::json& merges = file["model"]["merges"];
  for (nlohmann::json& merge : merges) {
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  for (std::size_t i = 0; merges.size() < 280147; ++i) merges.push_back(merges[i]);
  const Tokenizer read = io::parse_tokenizer(file.dump(), "large");
  EXPECT_EQ(read.vocabulary(), 128000);
  EXPECT_EQ(read.encode({"\x01!\0", 3}).size(), 1u);
}

TEST_F(WordPatterns, OtherPatternsAreWrittenAsTheyWereRead) {
  std::set<std::string> fingerprints{io::read_tokenizer(kGoldens + "tokenizer.json").fingerprint()};
  for (const char* part : {"digits", "llama3", "qwen2"}) {
    const Tokenizer first = tokenizer_with(part);
    const nlohmann::json written = nlohmann::json::parse(io::to_json(first));
    EXPECT_EQ(written["pre_tokenizer"], file_with(part)["pre_tokenizer"]);
    EXPECT_EQ(io::parse_tokenizer(written.dump(), "again").fingerprint(), first.fingerprint());
    fingerprints.insert(first.fingerprint());
  }
  const Tokenizer ignored = with_ignored_merges();
  EXPECT_EQ(io::parse_tokenizer(io::to_json(ignored), "again").fingerprint(),
            ignored.fingerprint());
  fingerprints.insert(ignored.fingerprint());
  BytePairs pairs = tokenizer_with("llama3").pairs();
  pairs.ignore_merges = true;
  fingerprints.insert(Tokenizer(pairs).fingerprint());
  EXPECT_EQ(fingerprints.size(), 6u);
}

TEST_F(WordPatterns, SmallReadsGiveTheTokensOfTheWholeText) {
  for (const char* part : {"digits", "llama3", "qwen2"})
    check_small_reads(tokenizer_with(part), part);
  check_small_reads(io::read_tokenizer(kGoldens + "spaced.json"), "spaced");
}

// As files made of cl100k_base have it.
TEST_F(WordPatterns, ASplitThatRemovesWhatNoMatchCoversCutsAlike) {
  nlohmann::json file = file_with("llama3");
  nlohmann::json& split = file["pre_tokenizer"]["pretokenizers"][0];
  split["behavior"] = "Removed";
  split["invert"] = true;
  const Tokenizer removing = io::parse_tokenizer(file.dump(), "cl100k");
  EXPECT_EQ(removing.pairs().pattern, WordPattern::llama3);
  EXPECT_EQ(removing.fingerprint(), tokenizer_with("llama3").fingerprint());
}

// More than a word may have.
TEST_F(WordPatterns, DigitsThatAreWordsOfTheirOwnMayBeAnyNumber) {
  const std::string file = write("digits.txt", std::string(data::kMaxWordBytes + 1000, '7'));
  const auto tokens_with = [&](const char* part) {
    io::write_tokens(io::whole_texts({file}), tokenizer_with(part), path("t.bin"), {});
    return tokens_of(path("t.bin")).size();
  };
  EXPECT_EQ(tokens_with("digits"), data::kMaxWordBytes + 1000);
  EXPECT_EQ(tokens_with("qwen2"), data::kMaxWordBytes + 1000);
}

// Signs, each followed by one that Digits takes for a digit: 2^20 words. Looking at all that
// follows for each of them would take hours.
TEST_F(WordPatterns, SignsAndDigitsThatTakeTurnsAreLookedAtOnce) {
  std::string text;
  for (int i = 0; i < 1 << 19; ++i) text += "!\U00011DE0";
  std::size_t words = 0;
  for (std::size_t at = 0; at < text.size(); ++words) at = word_end(text, at, WordPattern::digits);
  EXPECT_EQ(words, std::size_t{1} << 20);
}

TEST_F(WordPatterns, NameWhatIsNotSupported) {
  using Json = nlohmann::json;
  const Json parts = Json::parse(golden("parts.json"));
  const auto part_error = [&](const char* name, const std::function<void(Json&)>& change) {
    Json part = parts[name];
    change(part["pretokenizers"]);
    Json file = Json::parse(golden("tokenizer.json"));
    file["pre_tokenizer"] = part;
    return error_of<DataError>([&] { io::parse_tokenizer(file.dump(), "t.json"); });
  };
  EXPECT_EQ(part_error("llama3", [](Json&) {}), "");
  EXPECT_THAT(part_error("llama3", [](Json& p) { p[0]["pattern"]["Regex"] = "a|b"; }),
              HasSubstr("the pattern 'a|b' of the Split pre-tokenizer is not supported"));
  EXPECT_THAT(part_error("llama3",
                         [](Json& p) {
                           p[0]["pattern"] = {{"String", " "}};
                         }),
              HasSubstr("without a regular expression"));
  EXPECT_THAT(part_error("llama3", [](Json& p) { p[0]["behavior"] = "Removed"; }),
              HasSubstr("other than 'Isolated'"));
  EXPECT_THAT(part_error("llama3", [](Json& p) { p[0]["invert"] = true; }),
              HasSubstr("'Removed' and inverted"));
  EXPECT_THAT(part_error("llama3", [](Json& p) { p[1]["use_regex"] = true; }),
              HasSubstr("with its own pattern (use_regex) after Split is not supported"));
  EXPECT_THAT(part_error("llama3", [](Json& p) { p[1]["add_prefix_space"] = true; }),
              HasSubstr("add_prefix_space of ByteLevel after Split is not supported"));
  EXPECT_THAT(part_error("digits", [](Json& p) { p[0]["individual_digits"] = false; }),
              HasSubstr("without individual_digits"));
  EXPECT_THAT(part_error("digits", [](Json& p) { p[1]["use_regex"] = false; }),
              HasSubstr("without its pattern"));
  EXPECT_THAT(part_error("digits", [](Json& p) { p[0]["type"] = "Punctuation"; }),
              HasSubstr("a sequence of the pre-tokenizers Punctuation, ByteLevel is not"));
  EXPECT_THAT(part_error("digits", [](Json& p) { p.push_back(p[1]); }),
              HasSubstr("Digits, ByteLevel, ByteLevel is not supported"));
}

}  // namespace
}  // namespace lockstep::data
