// SPDX-License-Identifier: Apache-2.0
// Of preprocessing_file.h, what writes.
#include <nlohmann/json.hpp>

#include "core/data/embedded_column.h"
#include "core/io/preprocessing_file.h"
#include "core/io/tokenizer/tokenizer_file.h"

namespace lockstep::io {
namespace {

using data::ColumnRecord;
using data::ImageRecord;
using data::Preprocessing;
using data::TableRecord;
using data::TargetRecord;
using nlohmann::ordered_json;

ordered_json json_of(const TensorType& type) {
  ordered_json shape = ordered_json::array();
  for (int i = 0; i < type.shape.rank(); ++i) shape.push_back(type.shape[i]);
  return {{"dtype", std::string(name_of(type.dtype))}, {"shape", std::move(shape)}};
}

ordered_json json_of(const std::vector<data::EmbeddedColumn>& columns) {
  ordered_json result = ordered_json::array();
  for (const data::EmbeddedColumn& column : columns)
    result.push_back({{"feature", column.feature}, {"categories", column.categories}});
  return result;
}

ordered_json json_of(const ColumnRecord& column) {
  ordered_json result{{"name", column.name}};
  if (column.kind == ColumnRecord::Kind::numeric) {
    result["kind"] = "numeric";
    result["mean"] = column.mean;
    result["deviation"] = column.deviation;
    if (column.fill) result["missing"] = *column.fill;
    return result;
  }
  result["kind"] = column.embedded ? "embedded" : "one-hot";
  result["categories"] = column.categories;
  if (column.missing_is_category) result["missing"] = "category";
  return result;
}

ordered_json json_of(const TableRecord& table) {
  ordered_json columns = ordered_json::array(), targets = ordered_json::array();
  for (const ColumnRecord& column : table.columns) columns.push_back(json_of(column));
  for (const TargetRecord& target : table.targets)
    targets.push_back(
        {{"name", target.name}, {"mean", target.mean}, {"deviation", target.deviation}});
  ordered_json result{{"separator", std::string(1, table.separator)},
                      {"columns", std::move(columns)},
                      {"targets", std::move(targets)},
                      {"dropped", table.dropped},
                      {"id_columns", table.id_columns}};
  for (const auto& [name, alike] : table.named_alike)
    result["named_alike"][name] = {{"place", alike.place}, {"columns", alike.columns}};
  return result;
}

ordered_json json_of(const ImageRecord& image) {
  return {{"width", image.width},
          {"height", image.height},
          {"channels", image.channels},
          {"short_side", image.short_side},
          {"resize", "bilinear, antialiased, short side to short_side"},
          {"crop", "center"}};
}

}  // namespace

std::string to_json(const data::Preprocessing& record) {
  const data::SampleSpec& spec = record.samples;
  ordered_json result{{"version", Preprocessing::kVersion},
                      {"source", record.source},
                      {"task", std::string(name_of(record.task))},
                      {"input", json_of(spec.input)},
                      {"target", json_of(spec.target)},
                      {"scale", spec.scale},
                      {"shift", spec.shift},
                      {"classes", spec.classes},
                      {"class_names", record.class_names}};
  if (spec.ignore_index) result["ignore_index"] = *spec.ignore_index;
  if (!spec.embedded.empty()) result["embedded"] = json_of(spec.embedded);
  if (record.image) result["image"] = json_of(*record.image);
  if (record.table) result["table"] = json_of(*record.table);
  if (record.tokenizer) result["tokenizer"] = record.tokenizer->fingerprint();
  return result.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::map<std::string, std::string> record_texts(const data::Preprocessing& record) {
  std::map<std::string, std::string> texts{{kPreprocessingFile, to_json(record)}};
  if (record.tokenizer) texts[kTokenizerFile] = to_json(*record.tokenizer);
  return texts;
}

}  // namespace lockstep::io
