// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/preprocessing.h"

namespace lockstep {

enum class PredictionFormat { table, csv, json };

/// table, csv or json.
PredictionFormat parse_prediction_format(std::string_view name);

struct PredictionStyle {
  PredictionFormat format = PredictionFormat::table;
  /// Likeliest classes, labels or tokens; of labels nothing: those with probability 0.5 or more.
  std::optional<std::size_t> top;
  bool logits = false;  ///< the model's raw outputs, all of them
};

/// Which file or row a prediction is for.
struct PredictionSource {
  std::string file;       ///< "-": standard input, whose lines name it stdin
  std::int64_t line = 0;  ///< of a table's row, from 1
  std::string id;         ///< of a table's row; empty: it has none
};

/// What a gpt says of a text.
struct TextPrediction {
  std::int64_t tokens = 0;
  std::optional<double> loss;  ///< mean over all tokens but the first; nothing: there is but one
  std::vector<float> next;     ///< logits of the token after the last
};

/// "cat 93.1%, dog 4.2%": names and probabilities of the outputs `indices`, for people.
std::string answers_text(const data::Preprocessing& trained,
                         std::span<const double> answers,
                         std::span<const std::size_t> indices);

/// Writes a line for each prediction: for people; CSV (RFC 4180) with a header; or a JSON object.
/// Probabilities are softmax's or sigmoid's; numbers are in the table's units.
class PredictionWriter {
 public:
  PredictionWriter(const data::Preprocessing& trained, PredictionStyle style, std::ostream& out);

  /// outputs: the model's, [classes, labels or targets].
  void write(const PredictionSource& source, std::span<const float> outputs);
  void write(const PredictionSource& source, const TextPrediction& text);

 private:
  /// Whether a line has the likeliest alone, and not all outputs in their order.
  bool is_ranking() const;
  /// The outputs that are printed, the likeliest first where they are ranked.
  std::vector<std::size_t> chosen(std::span<const double> answers) const;
  std::string place(const PredictionSource& source) const;
  void write_table(const PredictionSource& source, std::span<const double> answers);
  void write_csv(const PredictionSource& source, std::span<const double> answers);
  void write_json(const PredictionSource& source, std::span<const double> answers);
  void write_csv_header(std::size_t outputs);

  const data::Preprocessing& trained_;
  PredictionStyle style_;
  std::ostream& out_;
  bool has_header_ = false;
};

}  // namespace lockstep
