// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <gtest/gtest.h>
#include <set>
#include <sys/stat.h>

#include "core/base/text/utf8.h"
#include "core/data/ignore_label.h"
#include "core/data/text/token_file.h"
#include "core/data/text/token_windows.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

struct Window {
  std::vector<std::int32_t> x, y;
};

Window load(const Dataset& dataset, std::int64_t index, std::uint64_t epoch = 0) {
  const auto n = std::size_t(dataset.spec().input.elems());
  Window window{std::vector<std::int32_t>(n), std::vector<std::int32_t>(n)};
  dataset.load(epoch,
               index,
               reinterpret_cast<std::byte*>(window.x.data()),
               reinterpret_cast<std::byte*>(window.y.data()));
  return window;
}

class Tokens : public DataFixture {
 protected:
  std::string write_tokens(const std::string& name,
                           const std::vector<std::uint16_t>& tokens,
                           const std::vector<std::uint32_t>& header = {}) {
    std::string bytes(header.empty() ? 0 : 1024, '\0');
    if (!header.empty()) std::memcpy(bytes.data(), header.data(), header.size() * 4);
    bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
    return write(name, bytes);
  }
  static std::vector<std::uint16_t> counting(int n) {
    std::vector<std::uint16_t> tokens;
    for (int i = 0; i < n; ++i) tokens.push_back(std::uint16_t(i));
    return tokens;
  }
};

TEST_F(Tokens, TextNumbersItsCharactersInOrderAndKeepsTheLastTenth) {
  std::string content;
  for (int i = 0; i < 25; ++i) content += "caé\n";  // 100 characters, 125 bytes
  const DataSplit split = open("text:" + write("t.txt", content), {.context = 4});
  EXPECT_EQ(split.train->class_names(), (std::vector<std::string>{"\n", "a", "c", "é"}));
  EXPECT_EQ(split.train->spec().classes, 4);
  EXPECT_EQ(split.train->size(), (90 - 1) / 4);
  // The last ten are "é\ncaé\ncaé\n" less its first: nine targets in windows of four.
  EXPECT_EQ(split.validation->size(), 3);
  const Window first = load(*split.validation, 0), last = load(*split.validation, 2);
  EXPECT_EQ(first.x, (std::vector<std::int32_t>{3, 0, 2, 1}));
  EXPECT_EQ(first.y, (std::vector<std::int32_t>{0, 2, 1, 3}));
  EXPECT_EQ(last.y[1], kIgnoreIndex);
  EXPECT_EQ(last.y[3], kIgnoreIndex);
  EXPECT_EQ(split.validation->spec().ignore_index, kIgnoreIndex);
}

TEST_F(Tokens, OtherTextHasTheNumbersThatTrainingGave) {
  std::string content;
  for (int i = 0; i < 25; ++i) content += "caé\n";
  const Preprocessing trained =
      open("text:" + write("t.txt", content), {.context = 4}).train->preprocessing();
  // Of its own characters, c would be 0.
  const std::string other = write("other.txt", "cécéc");
  const DataSplit all =
      open("text:" + other, {.validation_fraction = 1, .context = 4, .trained = &trained});
  EXPECT_EQ(all.train, nullptr);
  ASSERT_EQ(all.validation->size(), 1);
  EXPECT_EQ(load(*all.validation, 0).x, (std::vector<std::int32_t>{2, 3, 2, 3}));
  EXPECT_EQ(load(*all.validation, 0).y, (std::vector<std::int32_t>{3, 2, 3, 2}));
  EXPECT_EQ(all.validation->spec().classes, 4);
  const std::string strange = write("strange.txt", "caéz");
  EXPECT_THAT(error_of<DataError>([&] {
                open("text:" + strange,
                     {.validation_fraction = 1, .context = 2, .trained = &trained});
              }),
              testing::AllOf(testing::HasSubstr("strange.txt"), testing::HasSubstr("'z'")));
}

TEST_F(Tokens, RandomWindowsDependOnSeedEpochAndIndexAloneAndReachEveryPlace) {
  const std::string file = write_tokens("t.bin", counting(40));
  const OpenOptions options{.validation_fraction = 0.5, .seed = 3, .context = 8};
  const DataSplit a = open("tokens:" + file, options), b = open("tokens:" + file, options);
  OpenOptions other_seed = options;
  other_seed.seed = 4;
  const DataSplit c = open("tokens:" + file, other_seed);
  std::set<std::int32_t> places;
  int differing = 0;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    const Window window = load(*a.train, 1, epoch);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(window.y[i], window.x[0] + 1 + std::int32_t(i));
    EXPECT_EQ(window.x, load(*b.train, 1, epoch).x);
    differing += window.x != load(*c.train, 1, epoch).x;
    places.insert(window.x[0]);
  }
  EXPECT_EQ(places.size(), 12u);  // 20 tokens, the last window starts at 11
  EXPECT_EQ(*places.rbegin(), 11);
  EXPECT_GT(differing, 100);
}

TEST_F(Tokens, ReadsLlmcHeadersAndNanogptFolders) {
  const std::string file = write_tokens("h.bin", counting(100), {20240520, 1, 100});
  const DataSplit split = open("tokens:" + file, {.context = 10});
  EXPECT_THAT(split.train->describe(), HasSubstr("90 tokens"));
  EXPECT_EQ(load(*split.validation, 0).x[0], 90);
  write_tokens("train.bin", counting(50));
  const std::string val = write_tokens("val.bin", counting(12));
  const std::string folder = val.substr(0, val.rfind('/'));
  const DataSplit pair = open("tokens:" + folder, {.context = 10});
  EXPECT_EQ(pair.validation->size(), 2);
  EXPECT_THAT(pair.train->describe(), HasSubstr("50 tokens"));
}

TEST_F(Tokens, HeadersSayVocabularyWidthAndDocumentEnd) {
  const TokenFileHeader header{.token_bytes = 4,
                               .tokens = 30,
                               .vocabulary = 100000,
                               .end_of_text = 99999,
                               .tokenizer = std::string(64, 'a')};
  const auto words = header.to_words();
  std::string bytes(reinterpret_cast<const char*>(words.data()), sizeof words);
  for (std::int32_t i = 0; i < 30; ++i) {
    const std::int32_t token = i % 7 == 3 ? 99999 : 70000 + i;
    bytes.append(reinterpret_cast<const char*>(&token), sizeof token);
  }
  const std::string file = write("wide.bin", bytes);
  const TokenFile read(file);
  EXPECT_EQ(read.size(), 30);
  EXPECT_EQ(read.header().vocabulary, 100000);
  EXPECT_EQ(read.header().end_of_text, 99999);
  EXPECT_EQ(read.header().tokenizer, header.tokenizer);
  const DataSplit split = open("tokens:" + file, {.validation_fraction = 0.5, .context = 4});
  EXPECT_EQ(split.train->spec().classes, 100000);
  EXPECT_EQ(load(*split.validation, 0).x, (std::vector<std::int32_t>{70015, 70016, 99999, 70018}));
  EXPECT_THAT(
      error_of<ConfigError>([&] { open("tokens:" + file, {.context = 4, .vocabulary = 65536}); }),
      HasSubstr("its tokens are of a vocabulary of 100000, the model's is 65536"));
  const std::string lie =
      write("end.bin", std::string(bytes).replace(20, 4, "\xff\xff\x0f\x00", 4));
  EXPECT_THAT(error_of<DataError>([&] { open("tokens:" + lie, {.context = 4}); }),
              HasSubstr("says a vocabulary of 100000 tokens, and that token 1048574 ends"));
}

TEST_F(Tokens, SeparateDocumentsShareNoWindow) {
  // Documents of 1 to 6 tokens, and two ends that follow one another.
  std::vector<std::uint16_t> tokens{1, 9, 2, 3, 9, 9, 4, 5, 6, 7, 8, 9, 10, 11};
  const TokenFileHeader header{.tokens = tokens.size(), .vocabulary = 12, .end_of_text = 9};
  const auto words = header.to_words();
  std::string bytes(reinterpret_cast<const char*>(words.data()), sizeof words);
  bytes.append(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
  const TokenSequence sequence = read_token_file(write("d.bin", bytes), 0);
  const auto windows = document_windows(sequence, 4, {});
  constexpr std::int32_t kNone = kIgnoreIndex;
  ASSERT_EQ(windows->size(), 5);
  const std::vector<std::vector<std::int32_t>> x{
      {1, 0, 0, 0}, {9, 2, 3, 0}, {9, 4, 5, 6}, {7, 8, 0, 0}, {9, 10, 0, 0}},
      y{{9, kNone, kNone, kNone},
        {2, 3, 9, kNone},
        {4, 5, 6, 7},
        {8, 9, kNone, kNone},
        {10, 11, kNone, kNone}};
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(load(*windows, i).x, x[std::size_t(i)]) << i;
    EXPECT_EQ(load(*windows, i).y, y[std::size_t(i)]) << i;
  }
  EXPECT_THAT(windows->describe(), HasSubstr("5 windows of 4 that each lie in one of 4 documents"));
  EXPECT_NE(windows->fingerprint(), windows_in_order(sequence, 4, {})->fingerprint());
  const std::string bare = write_tokens("bare.bin", counting(40));
  EXPECT_THAT(error_of<ConfigError>([&] {
                open("tokens:" + bare,
                     {.context = 4, .vocabulary = 64, .documents = Documents::separate});
              }),
              HasSubstr("does not say which token ends a document"));
}

TEST_F(Tokens, NameFileAndPlaceOfWhatIsWrong) {
  const std::string file = write("one.bin", "ab");
  const auto data_error = [&](const std::string& source, OpenOptions options = {.context = 4}) {
    return error_of<DataError>([&] {
      const DataSplit split = open(source, options);
      for (std::int64_t i = 0; i < split.validation->size(); ++i) load(*split.validation, i);
    });
  };
  EXPECT_THAT(data_error("text:" + write("bad.txt",
                                         "abc\xff"
                                         "def")),
              HasSubstr("bad.txt: invalid UTF-8 at byte 3 (0xff)"));
  EXPECT_THAT(data_error("text:" + write("nul.txt", std::string("ab\0cd", 5))),
              HasSubstr("nul.txt: a NUL at byte 2"));
  EXPECT_THAT(data_error("text:" + write("empty.txt", "")), HasSubstr("empty"));
  EXPECT_THAT(data_error("tokens:" + write("odd.bin", "abc")), HasSubstr("3 bytes, an odd number"));
  EXPECT_THAT(data_error("tokens:" + write_tokens("lie.bin", counting(9), {20240520, 1, 10})),
              HasSubstr("promises 10 tokens of 2 bytes after 1024 bytes; the file has 1042 bytes"));
  EXPECT_THAT(data_error("tokens:" + write_tokens("v.bin", counting(9), {20240520, 2, 9})),
              HasSubstr("version 2"));
  EXPECT_THAT(data_error("tokens:" + write_tokens("past.bin", counting(100)),
                         {.context = 4, .vocabulary = 98}),
              HasSubstr("token 98 at position 8 is past the vocabulary of 98"));
  EXPECT_THAT(data_error("tokens:" + file + ".none"), HasSubstr("No such file"));
  ASSERT_EQ(mkfifo(path("pipe.bin").c_str(), 0600), 0);
  EXPECT_THAT(data_error("tokens:" + path("pipe.bin")), HasSubstr("expected a regular file"));
  const std::string few = error_of<ConfigError>(
      [&] { open("tokens:" + write_tokens("few.bin", counting(20)), {.context = 64}); });
  EXPECT_THAT(few, HasSubstr("has 18 tokens, a context of 64 needs at least 65"));
}

TEST_F(Tokens, IgnoredTokensAndLabelsBecomeTheIgnoreIndex) {
  const std::string file = write_tokens("t.bin", counting(40));
  const DataSplit split =
      open("tokens:" + file, {.validation_fraction = 0.5, .context = 8, .ignore_index = 22});
  EXPECT_EQ(load(*split.validation, 0).y,
            (std::vector<std::int32_t>{21, kIgnoreIndex, 23, 24, 25, 26, 27, 28}));
  const DataSplit digits = open("glyphs", {.ignore_index = 7});
  std::vector<std::byte> image(digits.train->spec().input.bytes());
  std::set<std::int32_t> labels;
  for (std::int64_t i = 0; i < 100; ++i) {
    std::int32_t label = 0;
    digits.train->load(0, i, image.data(), reinterpret_cast<std::byte*>(&label));
    labels.insert(label);
  }
  EXPECT_EQ(labels, (std::set<std::int32_t>{kIgnoreIndex, 0, 1, 2, 3, 4, 5, 6, 8, 9}));
}

TEST(Utf8, DecodesWhatItEncodesAndNothingElse) {
  for (const std::uint32_t code :
       {1u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    const std::string text = encode_utf8(code);
    const Utf8Character decoded = decode_utf8(text, 0);
    EXPECT_EQ(decoded.code, code);
    EXPECT_EQ(std::size_t(decoded.bytes), text.size());
    EXPECT_EQ(decode_utf8(text.substr(0, text.size() - 1) + "x", 0).bytes,
              text.size() == 1 ? 1 : 0);
  }
  for (const char* bad :
       {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\x80", "\xE2"})
    EXPECT_EQ(decode_utf8(bad, 0).bytes, 0) << bad;
  for (const std::string valid : {"", "a", "caf\xC3\xA9", "\xF0\x9F\x98\x80"})
    EXPECT_EQ(to_valid_utf8(valid), valid);
  EXPECT_EQ(to_valid_utf8("d\xFF.csv"), "d\xEF\xBF\xBD.csv");
  EXPECT_EQ(to_valid_utf8("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace lockstep::data
