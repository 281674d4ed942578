// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/data/table/column_roles.h"
#include "core/data/table/table_survey.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// A missing number, until the record's `fill` stands for it.
inline constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();

/// A missing text, until all categories are known: its own comes after them.
inline constexpr double kMissingText = -1;

/// Texts, each with a number of its own.
using Vocabulary = std::map<std::string, std::int32_t, std::less<>>;

/// Makes numbers of the fields of a row, by the kinds, categories and classes of a record. Values
/// are not standardised yet, a category or class is its number.
class RowParser {
 public:
  /// All of them have to outlive the parser. `survey` is that of a table to train on, whose texts
  /// become categories and classes; null: those of the record are all there are. `drops` says that
  /// rows with a missing value are skipped. Where roles.labels is empty, no label is looked for.
  RowParser(const RowReader& table,
            const ColumnRoles& roles,
            const Preprocessing& record,
            const TableSurvey* survey,
            bool drops);

  /// Writes the reader's row: values [columns], of a missing number kMissingNumber, of a missing
  /// text its category or, with a survey, kMissingText; targets [labels]. False: the row is
  /// skipped. Throws RowError naming field, what was expected and what came: the parser is as it
  /// was, without the row's new categories and class; DataError: a column of too many categories or
  /// classes, or of numbers with a text.
  bool parse(double* values, double* targets);

  /// For each feature column, its categories with their numbers; of another kind none.
  const std::vector<Vocabulary>& categories() const { return categories_; }
  const Vocabulary& classes() const { return classes_; }

 private:
  bool has_missing() const;
  void parse_row(double* values, double* targets);
  void forget_row();
  [[noreturn]] void refuse_column(std::size_t field,
                                  std::string_view expected,
                                  std::string_view came,
                                  std::string hint) const;
  double parse_feature(std::size_t f);
  double parse_number(std::size_t field, std::string_view text) const;
  double parse_category(std::size_t f, std::string_view text);
  double parse_missing(std::size_t f) const;
  void check_new_category(std::size_t f, std::string_view text) const;
  double parse_target(std::size_t field);
  double parse_class(std::size_t field, std::string_view text);
  void check_new_class(std::size_t field, std::string_view text) const;
  std::optional<std::int32_t> known_category(std::size_t f, std::string_view text) const;
  std::optional<std::int32_t> known_class(std::string_view text) const;

  const RowReader& table_;
  const ColumnRoles& roles_;
  const Preprocessing& record_;
  const TableSurvey* survey_;
  bool drops_;
  std::vector<Vocabulary> categories_;
  /// Of a record, for each column: which category is that number, -1: several.
  std::vector<std::map<double, std::int32_t>> category_of_number_;
  std::size_t features_ = 0;  // that the columns have become
  Vocabulary classes_;
  std::map<std::int64_t, std::int32_t> class_of_whole_;  // where all classes are whole numbers
  /// What the row has brought; where a category or class is new.
  std::vector<std::pair<Vocabulary*, Vocabulary::iterator>> new_in_row_;
};

}  // namespace lockstep::data
