// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/file_reader.h"
#include "core/data/bpe/token_encoder.h"

namespace lockstep::io {

/// What becomes of bytes that are not UTF-8.
enum class InvalidUtf8 : std::uint8_t {
  refused,
  /// U+FFFD for each longest part that is the begin of a character, as Python's errors="replace"
  /// (Unicode 16.0, section 3.9, "U+FFFD Substitution of Maximal Subparts").
  replaced
};

/// What a document of a text file is.
enum class DocumentUnit : std::uint8_t { file, line };

/// Bytes [begin, end) of a file.
struct TextRange {
  std::string file = {};
  std::uint64_t begin = 0, end = 0;
  bool ends_document = true;  ///< of DocumentUnit::file: at its end
};

/// A part of a text, and what of it is encoded on its own.
struct TextBlock {
  struct Span {
    std::size_t begin = 0, end = 0;
    data::TextPart part = data::TextPart::first;
    bool ends_document = false;
  };
  std::string text;  ///< valid UTF-8
  std::vector<Span> spans;
  std::uint64_t bytes = 0;  ///< of the file
};

/// Reads a range of a file as blocks of some megabytes at most, whatever its size: the words of all
/// blocks, by `pattern`, are those of the whole text. Lines are documents without their ends of
/// line, and empty ones are skipped.
class TextBlocks {
 public:
  /// Whether a text may be cut at a place: not within an added token.
  using MayCut = std::function<bool(std::string_view text, std::size_t at)>;

  /// `read_bytes`: how many are read at once. Throws DataError naming the file: missing, not a
  /// regular file.
  TextBlocks(const TextRange& range,
             DocumentUnit unit,
             InvalidUtf8 invalid,
             data::WordPattern pattern,
             MayCut may_cut,
             std::size_t read_bytes = std::size_t{1} << 20);

  /// False: there are no more. Throws DataError naming file and byte: invalid UTF-8 that is
  /// refused, a file that cannot be read or became shorter, a word of more than
  /// kMaxWordBytes.
  bool next(TextBlock& block);

 private:
  bool fill();
  void append_valid(std::string_view bytes, bool is_end);
  std::size_t find_cut() const;
  void mark_file(TextBlock& block, bool is_end);
  void mark_lines(TextBlock& block, bool is_end);

  TextRange range_;
  FileReader file_;
  DocumentUnit unit_;
  InvalidUtf8 invalid_;
  data::WordPattern pattern_;
  MayCut may_cut_;
  std::size_t read_bytes_;
  std::uint64_t read_ = 0;                       // bytes of the file, up to the next
  std::uint64_t delivered_ = 0;                  // what blocks so far count as
  std::string raw_;                              // what was read last
  std::string unfinished_;                       // bytes that may be the begin of a character
  std::string text_;                             // what is valid, and in no block yet
  data::TextPart part_ = data::TextPart::first;  // of what comes next
  bool over_ = false;
};

}  // namespace lockstep::io
