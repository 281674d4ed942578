// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/preprocessing_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/preprocessing_file.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"

namespace lockstep::io {
namespace {

using data::ColumnRecord;
using data::Preprocessing;
using data::Task;
using ::testing::HasSubstr;

/// A table with every kind of column; numbers that no short decimal is.
Preprocessing table_record() {
  Preprocessing record;
  record.source = "csv";
  record.task = Task::regression;
  record.samples.input = {{5}, DType::f32};
  record.samples.target = {{2}, DType::f32};
  data::TableRecord table;
  table.separator = ';';
  table.columns.push_back({.name = "rooms", .mean = 1.0 / 3, .deviation = 0x1.fffffffffffffp-3});
  table.columns.push_back({.name = "area", .mean = -7e300, .deviation = 1e-300, .fill = 0.1});
  table.columns.push_back({.name = "district \"a\"",
                           .kind = ColumnRecord::Kind::categorical,
                           .categories = {"north", "süd"},
                           .missing_is_category = true});
  table.targets = {{"price", 250000.5, 1e5}, {"rent", 0, 1}};
  table.dropped = {"note"};
  table.id_columns = {"id"};
  record.table = table;
  return record;
}

std::string error_of(const std::string& json) {
  try {
    parse_preprocessing(json, "p.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

TEST(PreprocessingFile, ATableComesBackWithTheSameBits) {
  const Preprocessing record = table_record();
  const Preprocessing read = parse_preprocessing(to_json(record), "p.json");
  EXPECT_EQ(read.table, record.table);
  EXPECT_EQ(read.task, Task::regression);
  EXPECT_EQ(read.samples.input, record.samples.input);
  EXPECT_EQ(to_json(read), to_json(record));
}

/// After a one-hot column of two features, so that its feature is not its column.
Preprocessing embedded_record() {
  Preprocessing record = table_record();
  record.samples.input = {{6}, DType::f32};
  record.table->columns.push_back({.name = "street",
                                   .kind = ColumnRecord::Kind::categorical,
                                   .categories = {"a", "b", "c"},
                                   .missing_is_category = true,
                                   .embedded = true});
  record.samples.embedded = {{5, 4}};
  return record;
}

TEST(PreprocessingFile, EmbeddedColumnsComeBack) {
  const Preprocessing record = embedded_record();
  const Preprocessing read = parse_preprocessing(to_json(record), "p.json");
  EXPECT_EQ(read.table, record.table);
  EXPECT_EQ(read.samples.embedded, record.samples.embedded);
  EXPECT_EQ(to_json(read), to_json(record));
  // Of a source that is not a table.
  Preprocessing custom;
  custom.task = Task::regression;
  custom.samples.input = {{3}, DType::f32};
  custom.samples.target = {{1}, DType::f32};
  custom.samples.embedded = {{0, 7}, {2, 1000}};
  EXPECT_EQ(parse_preprocessing(to_json(custom), "p.json").samples.embedded,
            custom.samples.embedded);
}

TEST(PreprocessingFile, RefusesEmbeddedColumnsThatTheSamplesDoNotHave) {
  const auto refused = [](const std::vector<data::EmbeddedColumn>& columns) {
    Preprocessing record = embedded_record();
    record.samples.embedded = columns;
    return error_of(to_json(record));
  };
  EXPECT_EQ(refused({{5, 4}}), "no error");
  for (const std::vector<data::EmbeddedColumn>& columns : {std::vector<data::EmbeddedColumn>{},
                                                           {{5, 3}},
                                                           {{4, 4}},
                                                           {{6, 4}},
                                                           {{-1, 4}},
                                                           {{5, 0}},
                                                           {{5, std::int64_t{1} << 40}},
                                                           {{5, 4}, {5, 4}},
                                                           {{5, 4}, {2, 4}}})
    EXPECT_THAT(refused(columns), HasSubstr("embedded")) << columns.size();
  Preprocessing image = data::glyphs().train->preprocessing();
  image.samples.embedded = {{0, 4}};
  EXPECT_THAT(error_of(to_json(image)), HasSubstr("embedded"));
}

TEST(PreprocessingFile, ImagesComeBackWithTheirNormalisation) {
  const Preprocessing record = data::glyphs().train->preprocessing();
  ASSERT_TRUE(record.image);
  const Preprocessing read = parse_preprocessing(to_json(record), "p.json");
  EXPECT_EQ(read.image, record.image);
  EXPECT_EQ(read.samples.scale, record.samples.scale);
  EXPECT_EQ(read.samples.shift, record.samples.shift);
  EXPECT_EQ(read.samples.classes, 10);
  EXPECT_EQ(read.task, Task::classification);
}

TEST(PreprocessingFile, RefusesWhatContradictsItself) {
  const std::string table = to_json(table_record());
  EXPECT_THAT(error_of(replaced(table, "\"version\": 1", "\"version\": 2")), HasSubstr("version"));
  EXPECT_THAT(error_of(replaced(table, "regression", "guessing")), HasSubstr("'task'"));
  EXPECT_THAT(error_of(replaced(table, "regression", "classification")), HasSubstr("'classes'"));
  EXPECT_THAT(error_of(replaced(table, "\"deviation\": 0.24", "\"deviation\": -0.24")),
              HasSubstr("'deviation'"));
  EXPECT_THAT(error_of(replaced(table, "\"one-hot\"", "\"two-hot\"")), HasSubstr("'kind'"));
  EXPECT_THAT(error_of(replaced(table, "\"north\",", "")), HasSubstr("'table'"));
  EXPECT_THAT(error_of(replaced(table, "\"separator\": \";\"", "\"separator\": \"\"")),
              HasSubstr("'separator'"));
  EXPECT_THAT(error_of(replaced(table, "\"table\"", "\"tables\"")), ::testing::Eq("no error"));
  // More or fewer labels than a sample has would be copied past its end.
  Preprocessing classes = table_record();
  classes.task = Task::classification;
  classes.samples.target = {{}, DType::i32};
  classes.samples.classes = 2;
  classes.table->targets.resize(1);
  EXPECT_EQ(error_of(to_json(classes)), "no error");
  for (int i = 0; i < 3000; ++i) classes.table->targets.push_back({"t" + std::to_string(i), 0, 1});
  EXPECT_THAT(error_of(to_json(classes)), HasSubstr("'table'"));
  EXPECT_THAT(error_of(replaced(table, "\"area\"", "\"rooms\"")), HasSubstr("'columns'"));
  EXPECT_THAT(error_of("{}"), HasSubstr("p.json: 'version' is missing"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of(table.substr(0, table.size() / 2)), HasSubstr("p.json"));
  const std::string image = to_json(data::glyphs().train->preprocessing());
  EXPECT_THAT(error_of(replaced(image, "\"width\": 28", "\"width\": 27")), HasSubstr("'image'"));
  EXPECT_THAT(error_of(replaced(image, "\"short_side\": 28", "\"short_side\": 27")),
              HasSubstr("'short_side'"));
}

TEST(PreprocessingFile, ColumnsThatAreNamedAlikeComeBack) {
  Preprocessing record = table_record();
  EXPECT_EQ(to_json(record).find("named_alike"), std::string::npos);
  record.table->named_alike = {{"area", {.place = 2, .columns = 3}}, {"id", {1, 2}}};
  const std::string text = to_json(record);
  EXPECT_EQ(parse_preprocessing(text, "p.json").table, record.table);
  for (const char* place : {"0", "4", "-1", "1.5", "\"2\""})
    EXPECT_THAT(error_of(replaced(text, "\"place\": 2", fmt::format("\"place\": {}", place))),
                HasSubstr("'place'"));
  EXPECT_THAT(error_of(replaced(text, "\"columns\": 3", "\"columns\": 1")), HasSubstr("'columns'"));
  EXPECT_THAT(error_of(replaced(text, "\"named_alike\": {", "\"named_alike\": [], \"more\": {")),
              HasSubstr("'named_alike'"));
}

}  // namespace
}  // namespace lockstep::io
