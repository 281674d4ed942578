// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/data/input_file.h"
#include "core/data/text/token_file.h"
#include "core/io/preprocessing_file.h"
#include "core/io/tokenizer/tokenize.h"
#include "core/io/tokenizer/tokenizer_file.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/tokenizer_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

using Tokenizers = TokenizerFixture;

// The goldens' texts and tokens are Hugging Face's: tests/reference/make_tokenizer_goldens.py.
TEST_F(Tokenizers, TokensAreThoseOfHuggingFace) {
  const Tokenizer plain = io::read_tokenizer(kGoldens + "tokenizer.json");
  const Tokenizer spaced = io::read_tokenizer(kGoldens + "spaced.json");
  write("vocab.json", golden("vocab.json"));
  write("merges.txt", golden("merges.txt"));
  const Tokenizer two_files = io::read_tokenizer(folder_);
  const nlohmann::json cases = nlohmann::json::parse(golden("cases.json"));
  ASSERT_GT(cases.size(), 90u);
  for (const auto& entry : cases) {
    const auto text = entry["text"].get<std::string>();
    const auto expected = entry["tokenizer"].get<std::vector<std::int32_t>>();
    EXPECT_EQ(plain.encode(text), expected) << text;
    EXPECT_EQ(plain.decode(expected), text);
    EXPECT_EQ(spaced.encode(text), entry["spaced"].get<std::vector<std::int32_t>>()) << text;
    EXPECT_EQ(two_files.encode(text), entry["vocabulary"].get<std::vector<std::int32_t>>()) << text;
  }
}

TEST_F(Tokenizers, TrainingMakesTheMergesOfHuggingFace) {
  const std::vector<io::TextRange> corpus = io::whole_texts({kGoldens + "corpus.txt"});
  const Tokenizer expected = io::read_tokenizer(kGoldens + "tokenizer.json");
  const Tokenizer all = io::train_tokenizer(corpus, 5000, {});
  EXPECT_EQ(all.pairs().merges, expected.pairs().merges);
  EXPECT_EQ(all.vocabulary(), std::int64_t(256 + expected.pairs().merges.size() + 1));
  EXPECT_EQ(all.end_of_text(), all.vocabulary() - 1);
  const Tokenizer few = io::train_tokenizer(corpus, 300, {});
  EXPECT_EQ(few.vocabulary(), 300);
  EXPECT_TRUE(std::equal(
      few.pairs().merges.begin(), few.pairs().merges.end(), expected.pairs().merges.begin()));
  EXPECT_THAT(error_of<ConfigError>([&] { io::train_tokenizer(corpus, 256, {}); }),
              HasSubstr("expected at least 257, of which 256 are bytes, got 256"));
}

TEST_F(Tokenizers, WhatIsWrittenIsReadAlike) {
  const Tokenizer first = io::read_tokenizer(kGoldens + "spaced.json");
  const std::string text = io::to_json(first);
  const Tokenizer second = io::parse_tokenizer(text, "written");
  EXPECT_EQ(second.fingerprint(), first.fingerprint());
  EXPECT_EQ(io::to_json(second), text);
  EXPECT_EQ(second.pairs().added, first.pairs().added);
  EXPECT_NE(first.fingerprint(), io::read_tokenizer(kGoldens + "tokenizer.json").fingerprint());
}

TEST_F(Tokenizers, DocumentsEndWithTheTokenAndThreadsChangeNothing) {
  const Tokenizer tokenizer = io::read_tokenizer(kGoldens + "tokenizer.json");
  const std::int32_t end = *tokenizer.end_of_text();
  const std::string lines = write("lines.txt", "the time\n\nwater\nlong"), other = write("b", "x");
  io::TokenizeOptions options{.unit = io::DocumentUnit::line, .end_of_text = end};
  std::vector<std::int32_t> expected;
  for (const char* text : {"the time", "water", "long", "x"}) {
    const auto tokens = tokenizer.encode(text);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(end);
  }
  io::write_tokens(io::whole_texts({lines, other}), tokenizer, path("lines.bin"), options);
  EXPECT_EQ(tokens_of(path("lines.bin")), expected);
  // 3 MiB, so that several blocks are encoded at once.
  std::string text;
  while (text.size() < (std::size_t{3} << 20)) text += golden("corpus.txt");
  const auto files = io::whole_texts({write("long.txt", text), lines});
  options.unit = io::DocumentUnit::file;
  io::write_tokens(files, tokenizer, path("one.bin"), options);
  options.threads = 3;
  const std::int64_t count = io::write_tokens(files, tokenizer, path("three.bin"), options);
  EXPECT_EQ(read_text_file(path("one.bin"), ""), read_text_file(path("three.bin"), ""));
  auto whole = tokenizer.encode(text);
  whole.push_back(end);
  for (const std::int32_t token : tokenizer.encode("the time\n\nwater\nlong"))
    whole.push_back(token);
  whole.push_back(end);
  EXPECT_EQ(count, std::int64_t(whole.size()));
  EXPECT_EQ(tokens_of(path("three.bin")), whole);
  const TokenFileHeader header = TokenFile(path("one.bin")).header();
  EXPECT_EQ(header.tokenizer, tokenizer.fingerprint());
  EXPECT_EQ(header.vocabulary, tokenizer.vocabulary());
}

TEST_F(Tokenizers, InvalidUtf8IsNamedOrReplacedAsPythonDoes) {
  const Tokenizer tokenizer = io::read_tokenizer(kGoldens + "tokenizer.json");
  const std::string file = write("bad.txt",
                                 "ab\xE6\x9D"
                                 "c\xFF\xF0\x9F\x99 \xED\xA0\x80 \xE2");
  io::TokenizeOptions options;
  EXPECT_THAT(error_of<DataError>([&] {
                io::write_tokens(io::whole_texts({file}), tokenizer, path("t.bin"), options);
              }),
              HasSubstr("bad.txt: invalid UTF-8 at byte 2 (0xe6)"));
  EXPECT_FALSE(std::filesystem::exists(path("t.bin")));
  options.invalid_utf8 = io::InvalidUtf8::replaced;
  io::write_tokens(io::whole_texts({file}), tokenizer, path("t.bin"), options);
  const std::string mark = "\uFFFD";  // bytes.decode("utf-8", errors="replace")
  EXPECT_EQ(tokenizer.decode(tokens_of(path("t.bin"))),
            "ab" + mark + "c" + mark + mark + " " + mark + mark + mark + " " + mark);
}

TEST_F(Tokenizers, TextsAreDividedAtFilesOrLines) {
  const std::string a = write("a", std::string(50, 'a')), b = write("b", std::string(50, 'b')),
                    lines = write("lines", "0123456789\n0123456789\n0123456789\n");
  const io::TextSplit files = io::split_texts({a, b}, 0.5);
  ASSERT_EQ(files.validation.size(), 1u);
  EXPECT_EQ(files.validation[0].file, b);
  EXPECT_EQ(files.validation[0].begin, 0u);
  const io::TextSplit last = io::split_texts({lines}, 0.4);
  ASSERT_EQ(last.train.size(), 1u);
  EXPECT_EQ(last.train[0].end, 22u);
  EXPECT_FALSE(last.train[0].ends_document);
  EXPECT_EQ(last.validation[0].begin, 22u);
  EXPECT_TRUE(last.validation[0].ends_document);
  EXPECT_TRUE(io::split_texts({lines}, 0).validation.empty());
  EXPECT_THAT(error_of<DataError>([&] { io::split_texts({lines}, 0.1); }),
              HasSubstr("33 bytes of text have no last part of 0.1"));
}

TEST_F(Tokenizers, NameWhatIsNotSupported) {
  const nlohmann::json good = nlohmann::json::parse(golden("tokenizer.json"));
  const auto error = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json file = good;
    change(file);
    return error_of<DataError>([&] { io::parse_tokenizer(file.dump(), "t.json"); });
  };
  using Json = nlohmann::json;
  EXPECT_EQ(error([](Json&) {}), "");
  EXPECT_THAT(error([](Json& f) { f["model"]["type"] = "WordPiece"; }),
              HasSubstr("t.json: the model 'WordPiece' is not supported"));
  EXPECT_THAT(error([](Json& f) {
                f["normalizer"] = {{"type", "NFC"}};
              }),
              HasSubstr("a normalizer (NFC) is not supported"));
  EXPECT_THAT(error([](Json& f) { f["pre_tokenizer"]["type"] = "Split"; }),
              HasSubstr("the pre-tokenizer 'Split' is not supported"));
  EXPECT_THAT(error([](Json& f) { f["pre_tokenizer"]["use_regex"] = false; }),
              HasSubstr("without its pattern"));
  EXPECT_THAT(error([](Json& f) { f["added_tokens"][1]["lstrip"] = true; }),
              HasSubstr("'lstrip' of the added token '<|mark|>' is not supported"));
  EXPECT_THAT(error([](Json& f) { f["model"]["byte_fallback"] = true; }),
              HasSubstr("'byte_fallback' of the model is not supported"));
  EXPECT_THAT(error([](Json& f) { f["model"]["vocab"]["new"] = 1 << 30; }),
              HasSubstr("must be a whole number from 0 to"));
  EXPECT_THAT(error([](Json& f) { f["model"]["vocab"]["東"] = 671; }), HasSubstr("got '東'"));
  EXPECT_THAT(error([](Json& f) {
                f["model"]["merges"].push_back({"zz", "q"});
              }),
              HasSubstr("merges 'zz', which is not in the vocabulary"));
  EXPECT_THAT(error([](Json& f) {
                f["model"]["merges"].push_back({"!", "\""});
              }),
              HasSubstr("makes '!\"', which is not a token"));
  EXPECT_THAT(error_of<DataError>([&] { io::read_tokenizer(folder_); }),
              HasSubstr("there is neither tokenizer.json nor vocab.json and merges.txt"));
  const Tokenizer tokenizer = io::read_tokenizer(kGoldens + "tokenizer.json");
  EXPECT_THAT(error_of<DataError>([&] { tokenizer.encode("a\xFF"); }),
              HasSubstr("invalid UTF-8 at byte 1 (0xff)"));
  EXPECT_THAT(error_of<DataError>([&] { tokenizer.encode(std::string(5 << 20, 'a')); }),
              HasSubstr("a word of 5242880 bytes"));
}

TEST_F(Tokenizers, ARunKeepsItsTokenizer) {
  const auto tokenizer =
      std::make_shared<const Tokenizer>(io::read_tokenizer(kGoldens + "tokenizer.json"));
  io::write_tokens(io::whole_texts({kGoldens + "corpus.txt"}), *tokenizer, path("t.bin"), {});
  const DataSplit split = open("tokens:" + path("t.bin"), {.context = 8, .tokenizer = tokenizer});
  EXPECT_EQ(split.train->spec().classes, tokenizer->vocabulary());
  const Preprocessing record = split.train->preprocessing();
  for (const auto& [name, text] : io::record_texts(record)) write(name, text);
  const Preprocessing read = io::read_preprocessing(path("preprocessing.json"));
  ASSERT_NE(read.tokenizer, nullptr);
  EXPECT_EQ(read.tokenizer->fingerprint(), tokenizer->fingerprint());
  // Texts become tokens by it.
  const std::string text = write("new.txt", "the time of water");
  const DataSplit all =
      open("text:" + text, {.validation_fraction = 1, .context = 4, .trained = &read});
  EXPECT_EQ(label_of(*all.validation, 0, 0), tokenizer->encode("the time of water")[1]);
  // Those of another tokenizer are refused.
  const Tokenizer other = io::train_tokenizer(io::whole_texts({kGoldens + "corpus.txt"}), 300, {});
  io::write_tokens(io::whole_texts({text}), other, path("other.bin"), {});
  EXPECT_THAT(error_of<ConfigError>([&] {
                open("tokens:" + path("other.bin"),
                     {.validation_fraction = 1, .context = 2, .trained = &read});
              }),
              HasSubstr("its tokens were made by another tokenizer"));
  write("tokenizer.json", io::to_json(other));
  EXPECT_THAT(error_of<DataError>([&] { io::read_preprocessing(path("preprocessing.json")); }),
              HasSubstr("of 300 tokens) than the run was trained with"));
  std::filesystem::remove(path("tokenizer.json"));
  EXPECT_THAT(error_of<DataError>([&] { io::read_preprocessing(path("preprocessing.json")); }),
              HasSubstr("tokenizer.json: no such file"));
}

}  // namespace
}  // namespace lockstep::data
