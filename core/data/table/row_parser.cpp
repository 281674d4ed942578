// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/row_parser.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/parameter_names.h"
#include "core/base/text/utf8.h"
#include "core/data/table/cell.h"

namespace lockstep::data {
namespace {

/// A class costs many times its name in memory.
constexpr std::int32_t kMaxClasses = 65536;
constexpr std::size_t kMaxCategories = 1000;
/// In a column most of whose values are numbers, so that a text is more likely a mistake.
constexpr std::size_t kMaxMixedCategories = 31;

Vocabulary numbered(const std::vector<std::string>& texts) {
  Vocabulary numbers;
  for (std::size_t i = 0; i < texts.size(); ++i) numbers.try_emplace(texts[i], std::int32_t(i));
  return numbers;
}

/// Categories by the number that they are; -1: several are that number, and only their texts tell
/// them apart.
std::map<double, std::int32_t> by_number(const std::vector<std::string>& texts) {
  std::map<double, std::int32_t> numbers;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto number = category_number(texts[i]);
    if (!number) continue;
    const auto [entry, is_new] = numbers.try_emplace(*number, std::int32_t(i));
    if (!is_new) entry->second = -1;
  }
  return numbers;
}

std::string one_of(const std::vector<std::string>& texts, const char* kind) {
  constexpr std::size_t kMaxListed = 20;
  const auto listed = std::ptrdiff_t(std::min(texts.size(), kMaxListed));
  std::string result = fmt::format("one of the {} {} of training, ", texts.size(), kind);
  result += fmt::format("{}", fmt::join(texts.begin(), texts.begin() + listed, ", "));
  return texts.size() > kMaxListed ? result + ", ..." : result;
}

constexpr const char* kMissingNumberHint =
    "`missing` mean or median replaces a missing number, `missing` drop skips its row";
constexpr const char* kMissingLabelHint = "`missing` drop skips rows without a label";
constexpr const char* kMissingTextHint =
    "`missing` category makes missing texts a category of their own, `missing` drop skips the row";

}  // namespace

RowParser::RowParser(const RowReader& table,
                     const ColumnRoles& roles,
                     const Preprocessing& record,
                     const TableSurvey* survey,
                     bool drops)
    : table_(table),
      roles_(roles),
      record_(record),
      survey_(survey),
      drops_(drops),
      classes_(numbered(record.class_names)) {
  for (const ColumnRecord& column : record.table->columns) {
    categories_.push_back(numbered(column.categories));
    category_of_number_.push_back(by_number(column.categories));
    features_ += std::size_t(column.features());
  }
  for (const auto& [name, number] : classes_) {
    const auto whole = to_whole(name);
    if (!whole) {
      class_of_whole_.clear();
      break;
    }
    class_of_whole_.emplace(*whole, number);
  }
}

bool RowParser::parse(double* values, double* targets) {
  if (drops_ && has_missing()) return false;
  new_in_row_.clear();
  try {
    parse_row(values, targets);
  } catch (const RowError&) {
    forget_row();
    throw;
  }
  return true;
}

void RowParser::parse_row(double* values, double* targets) {
  for (std::size_t f = 0; f < roles_.features.size(); ++f) values[f] = parse_feature(f);
  for (std::size_t l = 0; l < roles_.labels.size(); ++l)
    targets[l] = parse_target(roles_.labels[l]);
}

void RowParser::forget_row() {
  for (const auto& [vocabulary, entry] : new_in_row_) {
    if (vocabulary != &classes_) --features_;
    vocabulary->erase(entry);
  }
}

void RowParser::refuse_column(std::size_t field,
                              std::string_view expected,
                              std::string_view came,
                              std::string hint) const {
  throw DataError(fmt::format("{}: expected {}, got {} (column '{}')",
                              as_written(table_.place(field)),
                              expected,
                              as_written(came),
                              as_written(table_.header()[field])),
                  std::move(hint));
}

bool RowParser::has_missing() const {
  const auto missing = [&](std::size_t field) { return is_missing(table_.fields()[field]); };
  return std::ranges::any_of(roles_.features, missing) ||
         std::ranges::any_of(roles_.labels, missing);
}

double RowParser::parse_feature(std::size_t f) {
  const std::string_view text = table_.fields()[roles_.features[f]];
  if (is_missing(text)) return parse_missing(f);
  if (record_.table->columns[f].kind == ColumnRecord::Kind::numeric)
    return parse_number(roles_.features[f], text);
  return parse_category(f, text);
}

double RowParser::parse_number(std::size_t field, std::string_view text) const {
  const std::optional<double> number = to_number(text);
  if (number && std::isfinite(*number)) return *number;
  const bool is_too_large = number && !is_number_word(text);
  table_.fail(field,
              "a finite number",
              shown(text) + (is_too_large ? ", past the largest double, 1.8e308" : ""));
}

double RowParser::parse_missing(std::size_t f) const {
  const ColumnRecord& column = record_.table->columns[f];
  const std::size_t field = roles_.features[f];
  const bool numeric = column.kind == ColumnRecord::Kind::numeric;
  if (numeric && column.fill) return kMissingNumber;
  if (!numeric && column.missing_is_category)
    return survey_ ? kMissingText : double(categories_[f].size());
  const std::string_view text = table_.fields()[field];
  const std::string came = shown(text) + ", a missing value";
  if (survey_ == nullptr)
    table_.fail(field,
                numeric ? "a finite number" : one_of(column.categories, "categories"),
                came,
                "the model was trained without missing values in this column");
  table_.fail(field,
              numeric ? "a finite number" : "a text or number",
              came,
              numeric ? kMissingNumberHint : kMissingTextHint);
}

double RowParser::parse_category(std::size_t f, std::string_view text) {
  if (const auto known = known_category(f, text)) return double(*known);
  const std::size_t field = roles_.features[f];
  const ColumnRecord& column = record_.table->columns[f];
  if (survey_ == nullptr)
    table_.fail(field,
                one_of(column.categories, "categories"),
                shown(text),
                "train again with rows that have it, take them out, or skip them with "
                "`skip_bad_samples`");
  check_new_category(f, text);
  ++features_;
  const auto next = std::int32_t(categories_[f].size());
  new_in_row_.emplace_back(&categories_[f], categories_[f].emplace(std::string(text), next).first);
  return double(next);
}

void RowParser::check_new_category(std::size_t f, std::string_view text) const {
  const std::size_t field = roles_.features[f], known = categories_[f].size();
  const ColumnSurvey& column = survey_->features[f];
  const std::string& name = record_.table->columns[f].name;
  if (known == kMaxMixedCategories && column.numbers >= column.texts &&
      !roles_.is_categorical(field))
    refuse_text(table_, field, column);
  if (known == kMaxCategories)
    refuse_column(field,
                  fmt::format("at most {} different texts in a column", kMaxCategories),
                  fmt::format("one more, {}", shown(text)),
                  fmt::format("if it names rows or is free text: `drop` '{0}' or `id_column` '{0}'",
                              as_written(name)));
  if (features_ == kMaxColumns)
    refuse_column(field,
                  fmt::format("at most {} categories and numeric columns in all", kMaxColumns),
                  "one more",
                  "drop columns of many different texts with `drop`");
  if (!is_utf8(text)) table_.fail(field, "a text in UTF-8", shown(text), kNotUtf8Hint);
}

double RowParser::parse_target(std::size_t field) {
  const std::string_view text = table_.fields()[field];
  switch (record_.task) {
    case Task::multi_label: {
      const auto whole = to_whole(text);
      if (!whole || *whole < 0 || *whole > 1) table_.fail(field, "0 or 1", shown(text));
      return double(*whole);
    }
    case Task::regression:
      if (is_missing(text)) table_.fail(field, "a finite number", shown(text), kMissingLabelHint);
      return parse_number(field, text);
    default:
      return parse_class(field, text);
  }
}

std::optional<std::int32_t> RowParser::known_category(std::size_t f, std::string_view text) const {
  const auto found = categories_[f].find(text);
  if (found != categories_[f].end()) return found->second;
  const auto number = category_of_number_[f].empty() ? std::nullopt : category_number(text);
  const auto same = number ? category_of_number_[f].find(*number) : category_of_number_[f].end();
  const bool is_known = same != category_of_number_[f].end() && same->second >= 0;
  return is_known ? std::optional(same->second) : std::nullopt;
}

std::optional<std::int32_t> RowParser::known_class(std::string_view text) const {
  const auto found = classes_.find(text);
  if (found != classes_.end()) return found->second;
  if (class_of_whole_.empty()) return std::nullopt;
  const auto whole = to_whole(text);
  const auto same = whole ? class_of_whole_.find(*whole) : class_of_whole_.end();
  return same == class_of_whole_.end() ? std::nullopt : std::optional(same->second);
}

double RowParser::parse_class(std::size_t field, std::string_view text) {
  if (text.empty()) table_.fail(field, "a class name or number", shown(text), kMissingLabelHint);
  if (const auto known = known_class(text)) return double(*known);
  if (survey_ == nullptr) table_.fail(field, one_of(record_.class_names, "classes"), shown(text));
  check_new_class(field, text);
  const auto next = std::int32_t(classes_.size());
  new_in_row_.emplace_back(&classes_, classes_.emplace(std::string(text), next).first);
  return double(next);
}

void RowParser::check_new_class(std::size_t field, std::string_view text) const {
  constexpr const char* kClass = "a class name or whole number";
  constexpr const char* kNumberHint = "`task` regression predicts numbers";
  // Among names inf and nan are names too.
  const bool is_name = is_number_word(text) && survey_->labels[0].texts > 0;
  if (!is_name && is_missing(text)) table_.fail(field, kClass, shown(text), kMissingLabelHint);
  if (is_past_whole(text))
    table_.fail(field,
                kClass,
                shown(text) + ", past 2^53, where doubles cannot tell whole numbers apart",
                kNumberHint);
  if (!is_name && to_number(text) && !to_whole(text))
    table_.fail(field, kClass, shown(text), kNumberHint);
  if (classes_.size() == std::size_t(kMaxClasses))
    refuse_column(field,
                  fmt::format("at most {} different classes", kMaxClasses),
                  "one more; is this column a measurement?",
                  kNumberHint);
  if (!is_utf8(text)) table_.fail(field, "a class name in UTF-8", shown(text), kNotUtf8Hint);
}

}  // namespace lockstep::data
