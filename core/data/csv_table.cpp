// SPDX-License-Identifier: Apache-2.0
#include "core/data/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

/// A class and a column cost many times their names in memory.
constexpr std::int32_t kMostClasses = 65536;
constexpr std::size_t kMostColumns = 65536;

constexpr const char* kFormat =
    "a header line, then one line a sample: numeric features, the class last, separated by commas";

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// A finite or infinite number that takes up the whole of `text`.
std::optional<double> to_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The whole number that `text` is, where it can be told from its neighbours.
std::optional<std::int64_t> to_whole(std::string_view text) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const std::optional<double> number = to_number(text);
  if (!number) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t whole = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (status == std::errc{} && end == text.data() + text.size()) return whole;
  if (!(std::abs(*number) < kExact) || *number != std::floor(*number)) return std::nullopt;
  return std::int64_t(*number);
}

/// Parses one file; keeps the place for messages.
class Reader {
 public:
  Reader(const std::string& file, std::string_view text) : file_(file), rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_.back()) != rest_.npos)
      rest_.remove_suffix(1);
  }

  CsvTable read() {
    read_header();
    while (next_line()) read_row();
    if (table_.rows == 0)
      throw DataError(fmt::format("{}: expected samples, got only a header line", file_), kFormat);
    number_classes();
    return std::move(table_);
  }

 private:
  /// Splits the next line into `fields_`; false at the end.
  bool next_line() {
    if (rest_.empty()) return false;
    ++line_;
    const auto end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    split(line);
    return true;
  }

  void split(std::string_view line) {
    fields_.clear();
    for (bool more = true; more;) {
      if (fields_.size() == kMostColumns)
        fail(kMostColumns, fmt::format("at most {} columns", kMostColumns), "one more");
      line = line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
      if (line.starts_with('"')) {
        fields_.push_back(quoted(line));
      } else {
        const auto comma = std::min(line.find(','), line.size());
        fields_.emplace_back(trim(line.substr(0, comma)));
        line.remove_prefix(comma);
      }
      more = line.starts_with(',');
      if (more) line.remove_prefix(1);
    }
  }

  /// Takes a quoted field off the front of `line`; a doubled quote stands for one.
  std::string quoted(std::string_view& line) {
    std::string field;
    std::size_t i = 1;
    for (;; ++i) {
      if (i >= line.size()) fail(fields_.size(), "a closing quote", "the end of the line");
      if (line[i] != '"')
        field += line[i];
      else if (i + 1 < line.size() && line[i + 1] == '"')
        field += line[i++];
      else
        break;
    }
    line = line.substr(std::min(line.find_first_not_of(" \t", i + 1), line.size()));
    if (!line.empty() && line[0] != ',')
      fail(fields_.size(), "a comma behind the closing quote", fmt::format("'{}'", line[0]));
    return field;
  }

  void read_header() {
    if (!next_line()) throw DataError(fmt::format("{}: the file is empty", file_), kFormat);
    if (fields_.size() < 2)
      throw DataError(
          fmt::format("{}:{}: expected at least one feature and the class, got one column '{}'",
                      file_,
                      line_,
                      fields_[0]),
          kFormat);
    if (std::all_of(fields_.begin(), fields_.end() - 1, [](const std::string& field) {
          return to_number(field).has_value();
        }))
      throw DataError(
          fmt::format(
              "{}:{}: expected a header line with the columns' names, got numbers", file_, line_),
          "put a line with names in front");
    header_ = fields_;
    table_.features = std::int64_t(fields_.size()) - 1;
    table_.columns.assign(header_.begin(), header_.end() - 1);
  }

  void read_row() {
    LOCKSTEP_CHECK(fields_.size() == header_.size(),
                   DataError,
                   "{}:{}: expected {} fields as in the header, got {}",
                   file_,
                   line_,
                   header_.size(),
                   fields_.size() == 1 && fields_[0].empty() ? "an empty line"
                                                             : std::to_string(fields_.size()));
    for (std::size_t i = 0; i + 1 < fields_.size(); ++i) {
      const std::optional<double> number = to_number(fields_[i]);
      if (!number || !std::isfinite(*number))
        fail(i,
             "a finite number",
             fields_[i].empty() ? "an empty field" : fmt::format("'{}'", fields_[i]));
      table_.values.push_back(*number);
    }
    read_label();
    ++table_.rows;
  }

  void read_label() {
    const std::string& label = fields_.back();
    if (label.empty()) fail(fields_.size() - 1, "a class name or number", "an empty field");
    const bool number = to_number(label).has_value();
    if (number && !to_whole(label))
      fail(fields_.size() - 1, "a class name or whole number", fmt::format("'{}'", label));
    numeric_labels_ &= number;
    const auto next = std::int32_t(class_of_label_.size());
    if (next >= kMostClasses && !class_of_label_.contains(label))
      fail(fields_.size() - 1,
           fmt::format("at most {} different classes", kMostClasses),
           "one more; is this column a measurement?");
    table_.labels.push_back(class_of_label_.try_emplace(label, next).first->second);
  }

  /// Turns labels numbered by first appearance into classes in ascending order.
  void number_classes() {
    std::vector<std::pair<std::string, std::int32_t>> labels(class_of_label_.begin(),
                                                             class_of_label_.end());
    const auto equal = [&](const std::string& a, const std::string& b) {
      return numeric_labels_ ? *to_whole(a) == *to_whole(b) : a == b;
    };
    if (numeric_labels_)
      std::stable_sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) {
        return *to_whole(a.first) < *to_whole(b.first);
      });
    std::vector<std::int32_t> class_of_appearance(labels.size());
    for (const auto& [label, appearance] : labels) {
      if (table_.classes.empty() || !equal(table_.classes.back(), label))
        table_.classes.push_back(label);
      class_of_appearance[std::size_t(appearance)] = std::int32_t(table_.classes.size()) - 1;
    }
    LOCKSTEP_CHECK(table_.classes.size() >= 2,
                   DataError,
                   "{}: expected at least 2 classes in the last column ('{}'), got only '{}'",
                   file_,
                   header_.back(),
                   table_.classes[0]);
    for (std::int32_t& label : table_.labels) label = class_of_appearance[std::size_t(label)];
  }

  [[noreturn]] void fail(std::size_t field, std::string_view expected, const std::string& came) {
    const std::string name =
        field < header_.size() ? fmt::format(" (column '{}')", header_[field]) : "";
    throw DataError(fmt::format(
        "{}:{}:{}: expected {}, got {}{}", file_, line_, field + 1, expected, came, name));
  }

  std::string file_;
  std::string_view rest_;
  std::int64_t line_ = 0;
  std::vector<std::string> header_;
  std::vector<std::string> fields_;  // of the current line
  std::map<std::string, std::int32_t> class_of_label_;
  bool numeric_labels_ = true;
  CsvTable table_;
};

}  // namespace

CsvTable read_csv(const std::string& file) {
  const std::string text = read_text_file(file, kFormat);
  return Reader(file, text).read();
}

}  // namespace lockstep::data
