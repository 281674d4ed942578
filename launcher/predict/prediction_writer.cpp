// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/prediction_writer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <ostream>

#include "core/base/text/csv_field.h"
#include "core/base/text/printable.h"
#include "core/exec/answers.h"
#include "launcher/predict/json_line.h"

namespace lockstep {
namespace {

using data::Task;
using nlohmann::ordered_json;

constexpr std::size_t kDefaultTop = 5;
constexpr double kPresent = 0.5;  // of a label: the likelier answer is yes

std::string probability_text(double probability) {
  return fmt::format("{:.1f}%", probability * 100);
}

std::string name_of(const PredictionSource& source) {
  return source.file == "-" ? "stdin" : source.file;
}

std::string number_text(double number) { return fmt::format("{:.6g}", number); }

/// "cat 93.1%, dog 4.2%", with `form` of each answer.
std::string answers_text(const data::Preprocessing& trained,
                         std::span<const double> answers,
                         std::span<const std::size_t> indices,
                         std::string (*form)(double)) {
  std::string text;
  for (const std::size_t i : indices)
    text += fmt::format(
        "{}{} {}", text.empty() ? "" : ", ", printable(output_name(trained, i)), form(answers[i]));
  return text;
}

ordered_json source_json(const PredictionSource& source) {
  ordered_json line{{"file", name_of(source)}};
  if (source.line > 0) line["line"] = source.line;
  if (!source.id.empty()) line["id"] = source.id;
  return line;
}

}  // namespace

std::string answers_text(const data::Preprocessing& trained,
                         std::span<const double> answers,
                         std::span<const std::size_t> indices) {
  return answers_text(trained, answers, indices, probability_text);
}

PredictionFormat parse_prediction_format(std::string_view name) {
  if (name == "csv") return PredictionFormat::csv;
  return name == "json" ? PredictionFormat::json : PredictionFormat::table;
}

PredictionWriter::PredictionWriter(const data::Preprocessing& trained,
                                   PredictionStyle style,
                                   std::ostream& out)
    : trained_(trained), style_(style), out_(out) {}

bool PredictionWriter::is_ranking() const {
  return !style_.logits && (trained_.task == Task::classification ||
                            (trained_.task == Task::multi_label && style_.top));
}

std::vector<std::size_t> PredictionWriter::chosen(std::span<const double> answers) const {
  if (is_ranking()) return largest(answers, style_.top.value_or(kDefaultTop));
  std::vector<std::size_t> all(answers.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const bool labels = trained_.task == Task::multi_label && !style_.logits;
  // A table in CSV has as many columns in every line.
  if (labels && style_.format != PredictionFormat::csv)
    std::erase_if(all, [&](std::size_t i) { return !(answers[i] >= kPresent); });
  return all;
}

void PredictionWriter::write(const PredictionSource& source, std::span<const float> outputs) {
  const std::vector<double> answers = style_.logits
                                          ? std::vector<double>(outputs.begin(), outputs.end())
                                          : answers_of(trained_, outputs);
  if (style_.format == PredictionFormat::table) {
    write_table(source, answers);
  } else if (style_.format == PredictionFormat::csv) {
    write_csv(source, answers);
  } else {
    write_json(source, answers);
  }
}

std::string PredictionWriter::place(const PredictionSource& source) const {
  std::string text = printable(name_of(source));
  if (source.line > 0) text += fmt::format(":{}", source.line);
  if (!source.id.empty()) text += fmt::format(" ({})", printable(source.id));
  return text;
}

void PredictionWriter::write_table(const PredictionSource& source,
                                   std::span<const double> answers) {
  const bool numbers = style_.logits || trained_.task == Task::regression;
  const std::string text =
      answers_text(trained_, answers, chosen(answers), numbers ? number_text : probability_text);
  out_ << place(source) << "  " << (text.empty() ? "none" : text) << "\n";
}

void PredictionWriter::write_csv_header(std::size_t outputs) {
  has_header_ = true;
  out_ << "file";
  if (trained_.table) out_ << ",line";
  if (trained_.table && !trained_.table->id_columns.empty()) out_ << ",id";
  const char* const kind = trained_.task == Task::multi_label ? "label" : "class";
  if (is_ranking()) {
    for (std::size_t i = 1; i <= std::min(outputs, style_.top.value_or(kDefaultTop)); ++i)
      out_ << fmt::format(",{0}_{1},probability_{1}", kind, i);
  } else {
    for (std::size_t i = 0; i < outputs; ++i) out_ << "," << csv_name(output_name(trained_, i));
  }
  out_ << "\r\n";
}

void PredictionWriter::write_csv(const PredictionSource& source, std::span<const double> answers) {
  if (!has_header_) write_csv_header(answers.size());
  out_ << csv_name(name_of(source));
  if (trained_.table) out_ << "," << source.line;
  if (trained_.table && !trained_.table->id_columns.empty()) out_ << "," << csv_name(source.id);
  for (const std::size_t i : chosen(answers)) {
    if (is_ranking()) out_ << "," << csv_name(output_name(trained_, i));
    out_ << fmt::format(",{:.9g}", answers[i]);
  }
  out_ << "\r\n";
}

void PredictionWriter::write_json(const PredictionSource& source, std::span<const double> answers) {
  ordered_json line = source_json(source);
  const std::vector<std::size_t> indices = chosen(answers);
  const auto entries = [&](const char* kind) {
    ordered_json list = ordered_json::array();
    for (const std::size_t i : indices)
      list.push_back({{kind, output_name(trained_, i)}, {"probability", number_json(answers[i])}});
    return list;
  };
  if (style_.logits) {
    line["logits"] = ordered_json::array();
    for (const double value : answers) line["logits"].push_back(number_json(value));
  } else if (trained_.task == Task::classification) {
    line["class"] = output_name(trained_, indices.at(0));
    line["probability"] = number_json(answers[indices[0]]);
    line["top"] = entries("class");
  } else if (trained_.task == Task::multi_label) {
    line["labels"] = entries("label");
  } else {
    line["values"] = ordered_json::object();
    for (const std::size_t i : indices)
      line["values"][output_name(trained_, i)] = number_json(answers[i]);
  }
  out_ << json_line(line);
}

void PredictionWriter::write(const PredictionSource& source, const TextPrediction& text) {
  const std::vector<double> answers = softmax(text.next);
  const std::vector<std::size_t> indices = largest(answers, style_.top.value_or(kDefaultTop));
  if (style_.format == PredictionFormat::json) {
    ordered_json line = source_json(source);
    line["tokens"] = text.tokens;
    line["loss"] = text.loss ? number_json(*text.loss) : ordered_json(nullptr);
    line["perplexity"] = text.loss ? number_json(std::exp(*text.loss)) : ordered_json(nullptr);
    line["next"] = ordered_json::array();
    for (const std::size_t i : indices)
      line["next"].push_back(
          {{"token", output_name(trained_, i)}, {"probability", number_json(answers[i])}});
    out_ << json_line(line);
    return;
  }
  if (style_.format == PredictionFormat::csv) {
    if (!has_header_) {
      has_header_ = true;
      out_ << "file,tokens,loss,perplexity";
      for (std::size_t i = 1; i <= indices.size(); ++i)
        out_ << fmt::format(",token_{0},probability_{0}", i);
      out_ << "\r\n";
    }
    out_ << csv_name(name_of(source)) << "," << text.tokens;
    out_ << (text.loss ? fmt::format(",{:.9g},{:.9g}", *text.loss, std::exp(*text.loss)) : ",,");
    for (const std::size_t i : indices)
      out_ << fmt::format(",{},{:.9g}", csv_field(output_name(trained_, i)), answers[i]);
    out_ << "\r\n";
    return;
  }
  std::string next;
  for (const std::size_t i : indices)
    next += fmt::format("{}'{}' {}",
                        next.empty() ? "" : ", ",
                        printable(output_name(trained_, i)),
                        probability_text(answers[i]));
  out_ << place(source) << fmt::format("  {} tokens", text.tokens);
  if (text.loss)
    out_ << fmt::format(", loss {:.6f}, perplexity {:.6g}", *text.loss, std::exp(*text.loss));
  out_ << ", next " << next << "\n";
}

}  // namespace lockstep
