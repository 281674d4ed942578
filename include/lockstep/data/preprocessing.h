// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

class Tokenizer;

/// What a model predicts of a sample.
enum class Task : std::uint8_t {
  classification,  ///< one of `classes`; target: i32 []
  regression,      ///< numbers; target: f32 [D]
  multi_label,     ///< any of the labels; target: f32 [L] of 0 and 1
  next_token       ///< the token after each token; target: i32 [T]
};

/// The name in files and on the command line: classification, regression, multi-label, next-token.
std::string_view name_of(Task task);

/// How a column of a table becomes numbers.
struct ColumnRecord {
  enum class Kind : std::uint8_t {
    numeric,  ///< one feature: (value - mean) / deviation
    /// One feature for each category, 1 for the row's and 0 for the others (one-hot); or
    /// `embedded`.
    categorical
  };
  std::string name = {};
  Kind kind = Kind::numeric;
  double mean = 0;
  double deviation = 1;
  std::optional<double> fill = {};  ///< numeric: stands for a missing value; empty: an error
  std::vector<std::string> categories = {};  ///< categorical: in the order of their features
  /// Categorical: a missing value is a category of its own, after the others.
  bool missing_is_category = false;
  /// Categorical: the column is one feature, the index of the category, which the model embeds.
  bool embedded = false;

  /// Categorical: with that of missing values.
  std::int64_t category_count() const {
    return std::int64_t(categories.size()) + (missing_is_category ? 1 : 0);
  }
  std::int64_t features() const { return kind == Kind::numeric || embedded ? 1 : category_count(); }
  bool operator==(const ColumnRecord&) const = default;
};

/// A number that a table's model predicts: (value - mean) / deviation is what it learns.
struct TargetRecord {
  std::string name = {};
  double mean = 0;
  double deviation = 1;
  bool operator==(const TargetRecord&) const = default;
};

/// One of several columns of the same name.
struct NamedAlike {
  int place = 1;    ///< among them, from 1
  int columns = 1;  ///< of that name
  bool operator==(const NamedAlike&) const = default;
};

/// How the rows of a table become samples.
struct TableRecord {
  char separator = ',';
  std::vector<ColumnRecord> columns = {};  ///< features, in the order of the model's input
  /// Label columns; of a classification one, whose numbers are not used.
  std::vector<TargetRecord> targets = {};
  /// Columns that were there in training and are not looked at.
  std::vector<std::string> dropped = {};
  std::vector<std::string> id_columns = {};  ///< of those, what names a row in predictions
  /// Used columns whose name other columns had as well, all of them dropped.
  std::map<std::string, NamedAlike> named_alike = {};

  std::int64_t features() const;
  /// Of its columns, those that are embedded, by their features.
  std::vector<EmbeddedColumn> embedded() const;
  bool operator==(const TableRecord&) const = default;
};

/// How an image of any size becomes a sample: its short side is resized to `short_side` pixels
/// (bilinear, antialiased), and width x height pixels are cut from the middle.
struct ImageRecord {
  int width = 0;
  int height = 0;
  int channels = 3;  ///< 3: RGB; 1: grey, as Pillow's convert("L")
  int short_side = 0;
  bool operator==(const ImageRecord&) const = default;
};

/// Everything that was done to the training data before the model saw them, so that other data can
/// be treated alike: by a Predictor, and by whoever uses the exported weights. A run keeps it as
/// preprocessing.json in its folder and in each checkpoint, Trainer::save() writes it next to the
/// weights, and io::read_preprocessing() reads it.
struct Preprocessing {
  static constexpr int kVersion = 1;

  std::string source = "custom";  ///< kind of source: csv, images, packed, mnist, text, ...
  Task task = Task::classification;
  /// Types, classes, and what the program multiplies and adds (scale, shift).
  SampleSpec samples = {};
  /// Of classes, labels or tokens; empty: they have none.
  std::vector<std::string> class_names = {};
  std::optional<TableRecord> table = {};
  std::optional<ImageRecord> image = {};
  /// Of tokens: what made them of text; null: not known. A run keeps it as tokenizer.json.
  std::shared_ptr<const Tokenizer> tokenizer = {};
};

}  // namespace lockstep::data
