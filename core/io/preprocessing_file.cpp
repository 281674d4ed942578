// SPDX-License-Identifier: Apache-2.0
#include "core/io/preprocessing_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/data/embedded_column.h"
#include "core/data/input_file.h"
#include "core/data/table/row_reader.h"
#include "core/io/strict_json.h"
#include "core/io/tokenizer/tokenizer_file.h"

namespace lockstep::io {
namespace {

using data::ColumnRecord;
using data::ImageRecord;
using data::NamedAlike;
using data::Preprocessing;
using data::TableRecord;
using data::TargetRecord;
using data::Task;
using nlohmann::json;

constexpr int kRecordDepth = 5;
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;

/// Reads the members of one object; keeps the place for messages.
class Object {
 public:
  Object(const json& value, std::string where) : value_(value), where_(std::move(where)) {
    LOCKSTEP_CHECK(value.is_object(), DataError, "{}: expected an object", as_written(where_));
  }

  const json& at(const char* key) const {
    const auto found = value_.find(key);
    LOCKSTEP_CHECK(
        found != value_.end(), DataError, "{}: '{}' is missing", as_written(where_), key);
    return *found;
  }
  bool has(const char* key) const { return value_.contains(key) && !value_.at(key).is_null(); }
  std::string text(const char* key) const {
    check(at(key).is_string(), key, "a text");
    return at(key).get<std::string>();
  }
  std::int64_t whole(const char* key, std::int64_t least, std::int64_t most) const {
    const json& value = at(key);
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
    check(fits && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most,
          key,
          fmt::format("a whole number from {} to {}", least, most));
    return value.get<std::int64_t>();
  }
  double number(const char* key) const {
    check(at(key).is_number() && std::isfinite(at(key).get<double>()), key, "a finite number");
    return at(key).get<double>();
  }
  double deviation(const char* key) const {
    check(number(key) > 0, key, "a number above 0");
    return number(key);
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> result;
    for (const json& entry : list(key)) {
      check(entry.is_string(), key, "texts");
      result.push_back(entry.get<std::string>());
    }
    return result;
  }
  std::vector<float> floats(const char* key) const {
    std::vector<float> result;
    for (const json& entry : list(key)) {
      check(entry.is_number() && std::isfinite(entry.get<float>()), key, "finite numbers");
      result.push_back(entry.get<float>());
    }
    return result;
  }
  const json& list(const char* key) const {
    check(at(key).is_array(), key, "a list");
    return at(key);
  }
  void check(bool right, const char* key, const std::string& expected) const {
    LOCKSTEP_CHECK(right, DataError, "{}: '{}' must be {}", as_written(where_), key, expected);
  }
  std::string place(const char* key) const { return fmt::format("{}: {}", where_, key); }

 private:
  const json& value_;
  std::string where_;
};

TensorType parse_type(const Object& object, const char* key) {
  const Object type(object.at(key), object.place(key));
  TensorType result;
  const std::string name = type.text("dtype");
  bool known = false;
  for (const DType dtype : {DType::f32, DType::i32, DType::u8}) {
    if (name != name_of(dtype)) continue;
    result.dtype = dtype;
    known = true;
  }
  type.check(known, "dtype", "f32, i32 or u8");
  std::vector<std::int64_t> extents;
  std::int64_t elems = 1;
  for (const json& extent : type.list("shape")) {
    type.check(extent.is_number_unsigned() && extent.get<std::uint64_t>() >= 1 &&
                   extent.get<std::uint64_t>() <= std::uint64_t(kMaxExtent / elems) &&
                   extents.size() < std::size_t(Shape::kMaxRank - 1),
               "shape",
               "a few extents above 0");
    extents.push_back(extent.get<std::int64_t>());
    elems *= extents.back();
  }
  result.shape = Shape(std::span<const std::int64_t>(extents));
  return result;
}

Task parse_task(const Object& object) {
  const std::string name = object.text("task");
  for (const Task task :
       {Task::classification, Task::regression, Task::multi_label, Task::next_token})
    if (name == name_of(task)) return task;
  object.check(false, "task", "classification, regression, multi-label or next-token");
  return {};
}

ColumnRecord parse_column(const json& value, const std::string& where) {
  const Object object(value, where);
  ColumnRecord column;
  column.name = object.text("name");
  const std::string kind = object.text("kind");
  if (kind == "numeric") {
    column.mean = object.number("mean");
    column.deviation = object.deviation("deviation");
    if (object.has("missing")) column.fill = object.number("missing");
    return column;
  }
  object.check(kind == "one-hot" || kind == "embedded", "kind", "numeric, one-hot or embedded");
  column.kind = ColumnRecord::Kind::categorical;
  column.embedded = kind == "embedded";
  column.categories = object.texts("categories");
  column.missing_is_category = object.has("missing");
  if (column.missing_is_category)
    object.check(object.text("missing") == "category", "missing", "'category'");
  return column;
}

std::map<std::string, NamedAlike> parse_named_alike(const Object& object) {
  std::map<std::string, NamedAlike> result;
  object.check(object.at("named_alike").is_object(), "named_alike", "an object");
  for (const auto& [name, value] : object.at("named_alike").items()) {
    const Object alike(value, object.place("named_alike"));
    const std::int64_t columns = alike.whole("columns", 2, data::kMaxColumns);
    result[name] = {int(alike.whole("place", 1, columns)), int(columns)};
  }
  return result;
}

TableRecord parse_table(const Object& object) {
  TableRecord table;
  const std::string separator = object.text("separator");
  object.check(separator.size() == 1, "separator", "one character");
  table.separator = separator[0];
  for (const json& column : object.list("columns"))
    table.columns.push_back(parse_column(column, object.place("columns")));
  for (const json& value : object.list("targets")) {
    const Object target(value, object.place("targets"));
    table.targets.push_back(
        {target.text("name"), target.number("mean"), target.deviation("deviation")});
  }
  object.check(!table.columns.empty(), "columns", "at least one");
  object.check(!table.targets.empty(), "targets", "at least one");
  table.dropped = object.texts("dropped");
  table.id_columns = object.texts("id_columns");
  if (object.has("named_alike")) table.named_alike = parse_named_alike(object);
  return table;
}

ImageRecord parse_image(const Object& object) {
  constexpr std::int64_t kMaxPixels = 1 << 16;
  ImageRecord image;
  image.width = int(object.whole("width", 1, kMaxPixels));
  image.height = int(object.whole("height", 1, kMaxPixels));
  image.channels = int(object.whole("channels", 1, 3));
  object.check(image.channels != 2, "channels", "1 or 3");
  image.short_side = int(object.whole("short_side", 1, kMaxPixels));
  object.check(image.short_side >= std::max(image.width, image.height),
               "short_side",
               "at least width and height");
  return image;
}

data::SampleSpec parse_samples(const Object& object) {
  data::SampleSpec spec;
  spec.input = parse_type(object, "input");
  spec.target = parse_type(object, "target");
  spec.classes = int(object.whole("classes", 0, INT32_MAX));
  if (object.has("ignore_index"))
    spec.ignore_index = std::int32_t(object.whole("ignore_index", INT32_MIN, INT32_MAX));
  spec.scale = object.floats("scale");
  spec.shift = object.floats("shift");
  object.check(spec.scale.size() == spec.shift.size(), "scale", "as many numbers as 'shift'");
  if (object.has("embedded"))
    for (const json& value : object.list("embedded")) {
      const Object column(value, object.place("embedded"));
      spec.embedded.push_back({column.whole("feature", 0, kMaxExtent),
                               column.whole("categories", 1, data::kMaxEmbeddedCategories)});
    }
  return spec;
}

/// Names are how data find their places: one that comes twice would shift those after it.
void check_unique(std::vector<std::string> names, const Object& object, const char* key) {
  std::ranges::sort(names);
  object.check(std::ranges::adjacent_find(names) == names.end(), key, "of different names");
}

void check_table(const Preprocessing& record, const Object& object) {
  const TableRecord& table = *record.table;
  const bool classes = record.task == Task::classification;
  const data::SampleSpec& spec = record.samples;
  object.check(record.task != Task::next_token, "table", "absent where tokens are predicted");
  object.check(spec.embedded == table.embedded(), "embedded", "the columns of that kind");
  object.check(spec.input == TensorType{{table.features()}, DType::f32} &&
                   std::int64_t(table.targets.size()) == (classes ? 1 : spec.target.elems()) &&
                   spec.target.shape.rank() == (classes ? 0 : 1),
               "table",
               "of as many features and targets as 'input' and 'target' say");
  std::vector<std::string> names;
  for (const ColumnRecord& column : table.columns) {
    names.push_back(column.name);
    check_unique(column.categories, object, "categories");
  }
  for (const TargetRecord& target : table.targets) names.push_back(target.name);
  check_unique(std::move(names), object, "columns");
}

/// The parts of a record against each other.
void check(const Preprocessing& record, const Object& object) {
  const data::SampleSpec& spec = record.samples;
  const bool counts = record.task == Task::classification || record.task == Task::next_token;
  object.check(counts == (spec.classes > 0), "classes", "above 0 where the task is one of classes");
  object.check(
      spec.target.dtype == (counts ? DType::i32 : DType::f32), "target", "of the task's type");
  object.check(
      record.class_names.empty() || std::int64_t(record.class_names.size()) ==
                                        (counts ? std::int64_t(spec.classes) : spec.target.elems()),
      "class_names",
      "one name for each class");
  object.check(record.task != Task::classification || spec.target.shape.rank() == 0,
               "target",
               "one class a sample");
  try {
    data::check_embedded(spec);
  } catch (const ConfigError& wrong) {
    throw DataError(
        fmt::format("{}: {}", as_written(object.place("embedded")), as_written(wrong.what())));
  }
  if (record.table) check_table(record, object);
  if (record.image)
    object.check(spec.input ==
                     TensorType{{record.image->height, record.image->width, record.image->channels},
                                DType::u8},
                 "image",
                 "of the size that 'input' says");
}

/// What a file says, with the fingerprint of the tokenizer that lies next to it; empty: none.
struct Parsed {
  data::Preprocessing record;
  std::string tokenizer;
};

Parsed parse(std::string_view text, const std::string& where) {
  const json parsed = parse_strict_json(text, where, kRecordDepth);
  const Object object(parsed, where);
  const std::int64_t version = object.whole("version", 0, INT32_MAX);
  if (version != Preprocessing::kVersion)
    throw DataError(fmt::format("{}: a preprocessing record of version {}, this program reads {}",
                                as_written(where),
                                version,
                                Preprocessing::kVersion),
                    "use the program that trained the run");
  Preprocessing record;
  record.source = object.text("source");
  record.task = parse_task(object);
  record.samples = parse_samples(object);
  record.samples.multi_label = record.task == Task::multi_label;
  record.class_names = object.texts("class_names");
  if (object.has("table")) record.table = parse_table({object.at("table"), object.place("table")});
  if (object.has("image")) record.image = parse_image({object.at("image"), object.place("image")});
  std::string tokenizer;
  if (object.has("tokenizer")) {
    tokenizer = object.text("tokenizer");
    object.check(record.task == Task::next_token && record.class_names.empty(),
                 "tokenizer",
                 "absent where no tokens are predicted, or they have names");
  }
  check(record, object);
  return {std::move(record), std::move(tokenizer)};
}

/// Throws DataError: it is missing, or another than `record` was made with.
std::shared_ptr<const data::Tokenizer> read_tokenizer_of(const std::string& record_file,
                                                         const Parsed& record) {
  const std::string file = tokenizer_of_record(record_file);
  if (!is_there(file))
    throw DataError(
        fmt::format("{}: no such file, which the run's texts become tokens by", as_written(file)),
        "every run on tokens of a known tokenizer writes it; copy it with the weights");
  auto tokenizer = std::make_shared<const data::Tokenizer>(read_tokenizer(file));
  if (tokenizer->fingerprint() != record.tokenizer)
    throw DataError(fmt::format("{}: another tokenizer ({:.12}, of {} tokens) than the run was "
                                "trained with ({:.12}, whose model knows {} tokens)",
                                as_written(file),
                                tokenizer->fingerprint(),
                                tokenizer->vocabulary(),
                                record.tokenizer,
                                record.record.samples.classes),
                    "copy the run's own");
  LOCKSTEP_CHECK(tokenizer->vocabulary() <= record.record.samples.classes,
                 DataError,
                 "{}: a tokenizer of {} tokens, the model knows {}",
                 as_written(file),
                 tokenizer->vocabulary(),
                 record.record.samples.classes);
  return tokenizer;
}

}  // namespace

data::Preprocessing parse_preprocessing(std::string_view text, const std::string& where) {
  return parse(text, where).record;
}

data::Preprocessing read_preprocessing(const std::string& file) {
  Parsed parsed =
      parse(data::read_text_file(file, "every run writes it next to its weights"), file);
  if (!parsed.tokenizer.empty()) parsed.record.tokenizer = read_tokenizer_of(file, parsed);
  return std::move(parsed.record);
}

std::string tokenizer_of_record(const std::string& record_file) {
  const std::string_view name = kPreprocessingFile;
  std::string folder = record_file;
  if (folder.ends_with(name)) folder.resize(folder.size() - name.size());
  return folder + kTokenizerFile;
}

}  // namespace lockstep::io
