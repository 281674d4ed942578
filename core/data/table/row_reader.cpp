// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/row_reader.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/parameter_names.h"

namespace lockstep::data {
namespace {

std::string name_of_separator(char separator) {
  switch (separator) {
    case ',':
      return "a comma";
    case ';':
      return "a semicolon";
    case '\t':
      return "a tab";
    default:
      return fmt::format("'{}'", separator);
  }
}

/// The candidate that stands most often in the first row, outside of quotes.
char find_separator(std::string_view text, const std::string& candidates) {
  std::vector<std::int64_t> counts(candidates.size());
  bool begins = true, quoted = false;  // at the beginning of a field; inside quotes
  for (const char c : text) {
    if (quoted) {
      quoted = c != '"';
      continue;
    }
    if (c == '\n' || c == '\r') break;
    const auto which = candidates.find(c);
    if (which != candidates.npos) ++counts[which];
    // A doubled quote closes and opens again.
    quoted = c == '"' && begins;
    begins = which != candidates.npos || c == '"' || (begins && c == ' ');
  }
  return candidates[std::size_t(std::max_element(counts.begin(), counts.end()) - counts.begin())];
}

void refuse_nul(const std::string& name, std::string_view text) {
  const auto nul = text.find('\0');
  if (nul == text.npos) return;
  const bool utf16 = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  throw DataError(
      fmt::format("{}:{}: expected text, got a NUL byte",
                  as_written(name),
                  1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(nul), '\n')),
      utf16 ? "the file is in UTF-16; save it as UTF-8" : kTableFormat);
}

}  // namespace

RowReader::RowReader(std::string name, std::string_view text, char separator, char also)
    : name_(std::move(name)), text_(text), separator_(separator) {
  refuse_nul(name_, text_);
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  if (separator_ == '\0')
    separator_ = find_separator(text_, also == '\0' ? ",;\t" : std::string(",;\t") + also);
  // Tabs at the end may separate empty fields.
  const std::string_view blanks = separator_ == '\t' ? " \r\n" : " \t\r\n";
  const auto last = text_.find_last_not_of(blanks);
  text_ = text_.substr(0, last == text_.npos ? 0 : last + 1);
  if (text_.empty())
    throw DataError(fmt::format("{}: the file is empty", as_written(name_)), kTableFormat);
  line_ = last_line_ = next_line_;
  split_row();
  header_.assign(fields_.begin(), fields_.end());
}

bool RowReader::next() {
  if (at_ >= text_.size()) return false;
  line_ = last_line_ = next_line_;
  fields_.clear();
  unescaped_.clear();
  try {
    split_row();
  } catch (const RowError&) {
    const auto end = std::min(text_.find('\n', at_), text_.size());
    at_ = std::min(end + 1, text_.size());
    ++next_line_;
    throw;
  }
  if (fields_.size() == header_.size()) return true;
  const bool nothing = fields_.size() == 1 && fields_[0].empty();
  throw RowError(fmt::format("{}:{}", name_, line_),
                 line_,
                 fmt::format("expected {} fields as in the header, got {}{}",
                             header_.size(),
                             nothing ? "an empty line" : std::to_string(fields_.size()),
                             extent()),
                 "");
}

void RowReader::split_row() {
  for (;;) {
    if (fields_.size() == kMaxColumns)
      fail(kMaxColumns, fmt::format("at most {} columns", kMaxColumns), "one more");
    skip_blanks();
    const bool quoted = at_ < text_.size() && text_[at_] == '"';
    fields_.push_back(quoted ? quoted_field() : plain_field());
    if (at_ >= text_.size() || text_[at_] != separator_) break;
    ++at_;
  }
  end_row();
}

std::string_view RowReader::plain_field() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' && text_[at_] != '\r')
    ++at_;
  std::string_view field = text_.substr(begin, at_ - begin);
  const auto last = field.find_last_not_of(" \t");
  return field.substr(0, last == field.npos ? 0 : last + 1);
}

std::string_view RowReader::quoted_field() {
  const std::size_t begin = at_ + 1;
  std::size_t end = begin;
  bool doubled = false;
  for (;; end += 2) {
    end = text_.find('"', end);
    if (end == text_.npos) {
      at_ = begin;
      fail(fields_.size(), "a closing quote", "the end of the file");
    }
    if (end + 1 >= text_.size() || text_[end + 1] != '"') break;
    doubled = true;
  }
  const std::string_view field = text_.substr(begin, end - begin);
  at_ = end + 1;
  skip_blanks();
  if (!at_row_end() && text_[at_] != separator_) fail_quote(begin, end);
  next_line_ += std::count(field.begin(), field.end(), '\n');
  if (!doubled) return field;
  std::string& single = unescaped_.emplace_back();
  for (std::size_t i = 0; i < field.size(); ++i) {
    single += field[i];
    if (field[i] == '"') ++i;
  }
  return single;
}

/// Of a quote that opens in front of `begin` and closes at `end`, with something after it.
void RowReader::fail_quote(std::size_t begin, std::size_t end) {
  const std::string_view field = text_.substr(begin, end - begin);
  const std::int64_t lines = std::count(field.begin(), field.end(), '\n');
  std::string came = fmt::format("'{}'", text_[at_]);
  if (lines > 0) came += fmt::format(" in line {}", next_line_ + lines);
  if (lines > 0 && is_row_alone(text_.find('\n', begin) + 1))
    at_ = begin;
  else
    last_line_ = next_line_ += lines;
  fail(fields_.size(), name_of_separator(separator_) + " after the closing quote", came);
}

/// Whether the line that begins at `begin` is a row by itself.
bool RowReader::is_row_alone(std::size_t begin) const {
  const std::size_t end = std::min(text_.find('\n', begin), text_.size());
  try {
    const RowReader line("", text_.substr(begin, end - begin), separator_);
    return line.header().size() == header_.size();
  } catch (const DataError&) {
    return false;
  }
}

/// For messages, which lines a row of several has: a quote in it may span rows by mistake.
std::string RowReader::extent() const {
  if (last_line_ == line_) return "";
  return fmt::format("; the row spans lines {} to {}", line_, last_line_);
}

bool RowReader::at_row_end() const {
  return at_ >= text_.size() || text_[at_] == '\n' || text_[at_] == '\r';
}

void RowReader::skip_blanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || (text_[at_] == '\t' && separator_ != '\t')))
    ++at_;
}

void RowReader::end_row() {
  last_line_ = next_line_;
  if (at_ >= text_.size()) return;
  if (text_[at_] == '\r') {
    ++at_;
    if (at_ >= text_.size() || text_[at_] != '\n')
      fail(fields_.size() - 1,
           "a line that ends with LF or CR LF",
           "a CR alone",
           "convert the file's line ends, as with: tr '\\r' '\\n'");
  }
  ++at_;
  ++next_line_;
}

std::string RowReader::place(std::size_t field) const {
  return fmt::format("{}:{}:{}", name_, line_, field + 1);
}

void RowReader::fail(std::size_t field,
                     std::string_view expected,
                     std::string_view came,
                     std::string hint) const {
  const std::string column =
      field < header_.size() ? fmt::format(" (column '{}')", header_[field]) : "";
  throw RowError(place(field),
                 line_,
                 fmt::format("expected {}, got {}{}{}",
                             as_written(expected),
                             as_written(came),
                             as_written(column),
                             extent()),
                 std::move(hint));
}

}  // namespace lockstep::data
