// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/data/input_file.h"
#include "core/data/text/token_file.h"
#include "core/io/tokenizer/text_blocks.h"
#include "core/io/tokenizer/tokenizer_file.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {

inline const std::string kGoldens = LOCKSTEP_SOURCE_DIR "/tests/data/tokenizer_goldens/";

inline std::string golden(const std::string& name) { return read_text_file(kGoldens + name, ""); }

class TokenizerFixture : public DataFixture {
 protected:
  /// The golden tokenizer with another pre-tokenizer of parts.json.
  static nlohmann::json file_with(const std::string& part) {
    nlohmann::json file = nlohmann::json::parse(golden("tokenizer.json"));
    file["pre_tokenizer"] = nlohmann::json::parse(golden("parts.json"))[part];
    return file;
  }
  static Tokenizer tokenizer_with(const std::string& part) {
    return io::parse_tokenizer(file_with(part).dump(), part);
  }
  /// As Llama 3's file, without the last merges.
  static Tokenizer with_ignored_merges() {
    nlohmann::json file = file_with("llama3");
    file["post_processor"] = nlohmann::json::parse(golden("parts.json"))["post_processor"];
    file["model"]["ignore_merges"] = true;
    nlohmann::json& merges = file["model"]["merges"];
    merges.erase(merges.end() - 150, merges.end());
    return io::parse_tokenizer(file.dump(), "ignored");
  }
  std::vector<std::int32_t> tokens_of(const std::string& file) {
    const TokenFile tokens(file);
    std::vector<std::int32_t> result(std::size_t(tokens.size()));
    tokens.read(0, result);
    return result;
  }
  /// Texts read some bytes at a time.
  void check_small_reads(const Tokenizer& tokenizer, const std::string& name) {
    for (const auto& entry : nlohmann::json::parse(golden("cases.json"))) {
      const auto text = entry["text"].get<std::string>();
      const std::vector<std::int32_t> expected = tokenizer.encode(text);
      const std::string file = write("text", text);
      for (const std::size_t read_bytes : {1, 3, 7, 64}) {
        io::TextBlocks blocks(
            {.file = file, .end = text.size()},
            io::DocumentUnit::file,
            io::InvalidUtf8::refused,
            tokenizer.pairs().pattern,
            [&](std::string_view part, std::size_t at) {
              return tokenizer.model().may_cut(part, at);
            },
            read_bytes);
        std::vector<std::int32_t> tokens;
        std::uint64_t bytes = 0;
        TokenEncoder encoder(tokenizer.model());
        for (io::TextBlock block; blocks.next(block);) {
          bytes += block.bytes;
          for (const auto& span : block.spans)
            encoder.encode(std::string_view(block.text).substr(span.begin, span.end - span.begin),
                           span.part,
                           tokens);
        }
        EXPECT_EQ(tokens, expected) << name << read_bytes << text;
        EXPECT_EQ(bytes, text.size());
      }
    }
  }
};

}  // namespace lockstep::data
