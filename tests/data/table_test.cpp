// SPDX-License-Identifier: Apache-2.0
// Tables with texts, missing values and other tasks than classes; csv_test.cpp has plain ones.
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/data/preprocessing.h"
#include "core/data/table/bad_rows.h"
#include "core/data/table/table_inputs.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/table_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::IsEmpty;

using Floats = std::vector<float>;

Floats targets_of(const Dataset& dataset, std::int64_t index) {
  const std::vector<std::byte> bytes = sample_bytes(dataset, 0, index);
  Floats targets(std::size_t(dataset.spec().target.elems()));
  std::memcpy(
      targets.data(), bytes.data() + dataset.spec().input.bytes(), targets.size() * sizeof(float));
  return targets;
}

class TableTest : public TableFixture {};

TEST_F(TableTest, SeparatorIsFoundInTheHeaderOutsideOfQuotes) {
  const auto comma = train("a,\"b;;;\"\"\t\",k\n1,2,x\n3,4,y\n");
  EXPECT_EQ(comma->preprocessing().table->columns[1].name, "b;;;\"\t");
  for (const char* text : {"a;\"b,,,\";k\n1;2;x\n3;4;y\n", "a\tb, c\tk\n1\t2\tx\n3\t4\ty\n"})
    EXPECT_EQ(train(text)->fingerprint(), comma->fingerprint()) << text;
  // A quote within a field is a character like others.
  EXPECT_EQ(train("a 5\";b;k\n1;2;x\n3;4;y\n")->fingerprint(), comma->fingerprint());
  EXPECT_EQ(train("a|b,c|k\n1|2|x\n3|4|y\n", {.separator = '|'})->fingerprint(),
            comma->fingerprint());
  EXPECT_THAT(refusal<DataError>("a;b;k\n1,5;2;x\n2;3;y\n"),
              HasSubstr("table.csv:2:1: expected a decimal point, got '1,5' (column 'a')"));
}

TEST_F(TableTest, QuotedFieldsHoldLineEndsAndLinesAreStillCounted) {
  const auto table = train("a,\"t\nu\",k\n1,\"p\r\nq\",x\n2,\"say \"\"p\"\"\",y\n");
  EXPECT_THAT(table->preprocessing().table->columns[1].categories,
              ElementsAre("p\r\nq", "say \"p\""));
  EXPECT_THAT(refusal<DataError>("a,t,k\n1,\"p\nq\",x\n2,p\n"),
              HasSubstr("table.csv:4: expected 3 fields as in the header, got 2"));
  EXPECT_THAT(refusal<DataError>("a,t,k\n1,\"p\nq\",x\n,p,y\n"), HasSubstr("table.csv:4:1: "));
}

TEST_F(TableTest, OtherLineEndsAndBytesThatAreNoTextAreRefused) {
  EXPECT_THAT(refusal<DataError>("a,k\r1,x\r2,y\r"),
              AllOf(HasSubstr("table.csv:1:2:"), HasSubstr("a CR alone"), HasSubstr("tr '")));
  EXPECT_THAT(refusal<DataError>(std::string("a,k\n1,x\n\0,y\n", 12)),
              HasSubstr("table.csv:3: expected text, got a NUL byte"));
  EXPECT_THAT(refusal<DataError>(std::string("\xFF\xFE\x61\0,\0", 6)), HasSubstr("UTF-16"));
  EXPECT_THAT(refusal<DataError>("a,t,k\n1,M\xFCller,x\n2,p,y\n"),
              AllOf(HasSubstr("table.csv:2:2: expected a text in UTF-8"), HasSubstr("iconv")));
}

TEST_F(TableTest, TextsBecomeAFeatureEach) {
  const auto table = train("size,color,k\n1,red,x\n3,blue,y\n1,green,x\n3,red,y\n");
  EXPECT_EQ(table->spec().input.to_string(), "f32[4]");
  EXPECT_EQ(features_of(*table, 0), (Floats{-1, 0, 0, 1}));  // size, blue, green, red
  EXPECT_EQ(features_of(*table, 1), (Floats{1, 1, 0, 0}));
  EXPECT_EQ(features_of(*table, 2), (Floats{-1, 0, 1, 0}));
  const Preprocessing record = table->preprocessing();
  EXPECT_EQ(record.source, "csv");
  EXPECT_THAT(record.table->columns[1].categories, ElementsAre("blue", "green", "red"));
  EXPECT_EQ(*kept(*table).table, *record.table);
  EXPECT_NE(table->fingerprint(),
            train("size,color,k\n1,Red,x\n3,blue,y\n1,green,x\n3,Red,y\n")->fingerprint());
}

TEST_F(TableTest, TextsOfAColumnAreLimited) {
  std::string text = "a,name,k\n";
  for (int row = 0; row < 1000; ++row) text += fmt::format("1,n{},{}\n", row, row % 2);
  EXPECT_EQ(train(text)->spec().input.to_string(), "f32[2]");
  EXPECT_EQ(train(text, {.one_hot_columns = {"name"}})->spec().input.to_string(), "f32[1001]");
  text += "1,n1000,1\n";
  EXPECT_THAT(refusal<DataError>(text),
              AllOf(HasSubstr("table.csv:1002:2: expected at most 1000 different texts"),
                    HasSubstr("`drop` 'name'")));
  EXPECT_EQ(train(text, {.dropped = {"name"}})->spec().input.to_string(), "f32[1]");
}

constexpr const char* kGaps = "a,t,k\n1,p,x\n,q,x\n3,NA,y\n8,p,y\nnull,p,y\n";

TEST_F(TableTest, MissingValuesAreRefusedByDefault) {
  EXPECT_THAT(refusal<DataError>(kGaps),
              AllOf(HasSubstr("table.csv:3:1: expected a finite number, got an empty field"),
                    HasSubstr("`missing`")));
  EXPECT_THAT(refusal<DataError>("a,t,k\n1,p,x\n2,?,y\n"),
              AllOf(HasSubstr("table.csv:3:2: expected a text or number, got '?'"),
                    HasSubstr("`missing` category")));
  EXPECT_THAT(refusal<DataError>(kGaps, {.missing = Missing::category}),
              AllOf(HasSubstr("table.csv:3:1:"), HasSubstr("`missing` mean")));
}

TEST_F(TableTest, MissingValuesAreFilledByTheTrainingPart) {
  for (const auto& [missing, fill] : {std::pair(Missing::mean, 4.0), {Missing::median, 3.0}}) {
    const auto table = train(kGaps, {.missing = missing});
    const ColumnRecord number = table->preprocessing().table->columns[0];
    EXPECT_EQ(number.fill, fill);
    const double mean = (12 + 2 * fill) / 5;
    EXPECT_DOUBLE_EQ(number.mean, mean);
    EXPECT_DOUBLE_EQ(number.deviation, std::sqrt((1 + 9 + 64 + 2 * fill * fill) / 5 - mean * mean));
    EXPECT_FLOAT_EQ(features_of(*table, 1)[0], float((fill - mean) / number.deviation));
    EXPECT_EQ(features_of(*table, 4)[0], features_of(*table, 1)[0]);
    // p, q and missing
    EXPECT_EQ(table->spec().input.to_string(), "f32[4]");
    EXPECT_EQ(features_of(*table, 2)[3], 1.0f);
    EXPECT_EQ(features_of(*table, 0)[3], 0.0f);
  }
  const auto dropped = train(kGaps, {.missing = Missing::drop});
  EXPECT_EQ(dropped->size(), 2);
  EXPECT_EQ(dropped->preprocessing().table->columns[0].mean, 4.5);
  EXPECT_THAT(dropped->describe(), HasSubstr("3 rows with missing values dropped"));
  EXPECT_THAT(refusal<DataError>("a,b,k\n,1,x\n,2,y\n", {.missing = Missing::mean}),
              AllOf(HasSubstr("no value in the training part"), HasSubstr("`drop` 'a'")));
}

TEST_F(TableTest, ColumnsAreChosenByNameOrNumber) {
  const std::string text = "id,a,kind,b\n7,1,x,10\n8,3,y,30\n";
  const auto by_name = train(text, {.label_columns = {"kind"}, .id_columns = {"id"}});
  EXPECT_EQ(by_name->spec().input.to_string(), "f32[2]");
  EXPECT_EQ(by_name->spec().classes, 2);
  EXPECT_THAT(by_name->preprocessing().table->id_columns, ElementsAre("id"));
  EXPECT_EQ(train(text, {.label_columns = {"3"}, .dropped = {"1"}})->fingerprint(),
            by_name->fingerprint());
  EXPECT_EQ(train(text, {.label_columns = {"-2"}, .dropped = {"-4"}})->fingerprint(),
            by_name->fingerprint());
  // What is left of the dropped column is the label.
  EXPECT_EQ(train(text, {.dropped = {"b", "id"}})->preprocessing().table->targets[0].name, "kind");

  EXPECT_THAT(refusal<ConfigError>(text, {.label_columns = {"kinds"}}),
              AllOf(HasSubstr("`label_column` 'kinds': no such column"), HasSubstr("'kind'")));
  EXPECT_THAT(refusal<ConfigError>(text, {.dropped = {"5"}}), HasSubstr("`drop` '5'"));
  EXPECT_THAT(refusal<ConfigError>(text, {.label_columns = {"kind"}, .dropped = {"kind"}}),
              HasSubstr("column 'kind' was named by `drop` already"));
  EXPECT_THAT(refusal<DataError>("a,a,k\n1,2,x\n3,4,y\n"),
              AllOf(HasSubstr("columns 1 and 2 are both named 'a'"), HasSubstr("`drop` 2")));
  EXPECT_EQ(train("a,a,k\n1,2,x\n3,4,y\n", {.dropped = {"2"}})->spec().input.to_string(), "f32[1]");
}

/// A table whose label column holds `labels` again and again.
std::string labelled(const std::vector<std::string>& labels, int rows) {
  std::string text = "a,b,y\n";
  for (int row = 0; row < rows; ++row)
    text += fmt::format("{},{},{}\n", row, row % 7, labels[std::size_t(row) % labels.size()]);
  return text;
}

TEST_F(TableTest, TheTaskIsChosenByTheLabels) {
  const auto task = [&](const std::vector<std::string>& labels, int rows) {
    return train(labelled(labels, rows))->preprocessing().task;
  };
  EXPECT_EQ(task({"yes", "no"}, 4), Task::classification);
  EXPECT_EQ(task({"1", "2", "many"}, 4), Task::classification);
  EXPECT_EQ(task({"0", "1", "2"}, 3), Task::classification);
  EXPECT_EQ(task({"3", "5", "8"}, 15), Task::classification);
  EXPECT_EQ(task({"1", "2.5"}, 10), Task::regression);
  EXPECT_EQ(task({"1", "2.0"}, 10), Task::classification);

  std::vector<std::string> prices, numbers;
  for (int i = 0; i < 712; ++i) prices.push_back(std::to_string(1000 + 37 * i));
  for (int i = 0; i < 100; ++i) numbers.push_back(std::to_string(i));
  EXPECT_THAT(refusal<ConfigError>(labelled(prices, 1000)),
              AllOf(HasSubstr("712 different whole numbers in 1000 rows"),
                    HasSubstr("`task` regression"),
                    HasSubstr("`task` classification")));
  EXPECT_THAT(refusal<ConfigError>(labelled({"3", "5", "8"}, 14)), HasSubstr("3 different"));
  EXPECT_EQ(task(numbers, 500), Task::classification);
  EXPECT_THAT(refusal<ConfigError>(labelled(numbers, 499)), HasSubstr("100 different"));
  const auto priced = train(labelled(prices, 1000), {.task = Task::regression});
  EXPECT_EQ(priced->spec().target.to_string(), "f32[1]");
  EXPECT_EQ(train(labelled(prices, 1000), {.task = Task::classification})->spec().classes, 712);
  EXPECT_THAT(train(labelled({"1", "2.5"}, 10))->describe(), HasSubstr("regression: 'y'"));
}

TEST_F(TableTest, NumbersToPredictAreStandardisedAndHaveTheirUnits) {
  const auto table = train("a,price,b,rent\n1,100.5,2,1\n2,300.5,5,1\n3,200.5,9,1\n",
                           {.label_columns = {"price", "rent"}});
  EXPECT_EQ(table->spec().target.to_string(), "f32[2]");
  EXPECT_EQ(table->spec().classes, 0);
  EXPECT_FALSE(table->spec().multi_label);
  const float high = float(100 / std::sqrt(20000 / 3.0));
  EXPECT_THAT(targets_of(*table, 0), ElementsAre(FloatEq(-high), 0.0f));
  EXPECT_THAT(targets_of(*table, 1), ElementsAre(FloatEq(high), 0.0f));
  const TargetRecord price = kept(*table).table->targets[0];
  EXPECT_EQ(price.name, "price");
  EXPECT_NEAR(in_units(price, double(targets_of(*table, 1)[0])), 300.5, 1e-4);
  EXPECT_THAT(refusal<DataError>("a,y\n1,0.5\n2,\n"),
              HasSubstr("table.csv:3:2: expected a finite number, got an empty field"));
}

TEST_F(TableTest, SeveralColumnsOf0And1AreLabels) {
  const auto table = train("a,cat,dog\n1,0,1\n2,1,1\n3,0,0\n", {.label_columns = {"cat", "dog"}});
  EXPECT_EQ(table->preprocessing().task, Task::multi_label);
  EXPECT_TRUE(table->spec().multi_label);
  EXPECT_TRUE(kept(*table).samples.multi_label);
  EXPECT_EQ(targets_of(*table, 1), (Floats{1, 1}));
  EXPECT_EQ(targets_of(*table, 2), (Floats{0, 0}));
  EXPECT_THAT(table->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(refusal<DataError>("a,cat,dog\n1,0,1\n2,2,1\n",
                                 {.task = Task::multi_label, .label_columns = {"cat", "dog"}}),
              HasSubstr("table.csv:3:2: expected 0 or 1, got '2' (column 'cat')"));
  EXPECT_THAT(refusal<DataError>("a,cat,dog\n1,0,1\n2,x,1\n", {.label_columns = {"cat", "dog"}}),
              HasSubstr("table.csv:3:2: expected a number in each of several label columns"));
}

TEST_F(TableTest, StandardAndFillComeFromTrainingRowsAndCategoriesFromAll) {
  std::string text = "a,t,k\n";
  for (int row = 0; row < 20; ++row) text += fmt::format("{},t{},{}\n", row, row, row % 2);
  const DataSplit split = csv(write("t.csv", text), 0.3, 5);
  const TableRecord table = *split.train->preprocessing().table;
  EXPECT_EQ(table.columns[1].categories.size(), 20u);
  double sum = 0;
  for (int i = 0; i < 14; ++i) {
    const Floats row = features_of(*split.train, i);
    sum += std::round(double(row[0]) * table.columns[0].deviation + table.columns[0].mean);
  }
  EXPECT_NEAR(table.columns[0].mean, sum / 14, 1e-6);
  EXPECT_NE(sum / 14, 9.5) << "a split whose parts have the same mean shows nothing";
  EXPECT_EQ(*split.validation->preprocessing().table, table);
}

constexpr const char* kTrained = "size,color,id,kind\n1,red,1,x\n3,blue,2,y\n5,red,3,x\n7,,4,y\n";
const TableOptions kTrainedOptions{.missing = Missing::mean, .id_columns = {"id"}};

TEST_F(TableTest, OtherTablesAreReadByTheRecord) {
  const Preprocessing trained = kept(*train(kTrained, kTrainedOptions));
  const auto other = evaluate("kind;unused;color;size\ny;?;red;101\nx;?;;\n", trained);
  EXPECT_EQ(other->size(), 2);
  const double deviation = std::sqrt(5.0);
  EXPECT_THAT(features_of(*other, 0),
              ElementsAre(FloatEq(float(97 / deviation)), 0.0f, 1.0f, 0.0f));
  EXPECT_EQ(features_of(*other, 1), (Floats{0, 0, 0, 1}));
  EXPECT_EQ(label_of(*other, 0, 0), 1);
  EXPECT_EQ(label_of(*other, 0, 1), 0);
  EXPECT_EQ(*other->preprocessing().table, *trained.table);
  // The training table itself gives the samples of training.
  EXPECT_EQ(evaluate(kTrained, trained)->fingerprint(),
            train(kTrained, kTrainedOptions)->fingerprint());
}

TEST_F(TableTest, OtherTablesThatContradictTheRecordAreRefused) {
  const Preprocessing trained = kept(*train(kTrained, kTrainedOptions));
  EXPECT_THAT(evaluation_refusal("size,colour,kind\n1,red,x\n", trained),
              AllOf(HasSubstr("the feature column 'color'"), HasSubstr("did you mean 'colour'?")));
  EXPECT_THAT(evaluation_refusal("size,color\n1,red\n", trained),
              HasSubstr("the label column 'kind'"));
  EXPECT_THAT(evaluation_refusal("size,color,kind,size\n1,red,x,1\n", trained),
              HasSubstr("more than one column is named 'size'"));
  EXPECT_THAT(evaluation_refusal("size,color,kind\n1,red,x\n1,pink,x\n", trained),
              AllOf(HasSubstr("other.csv:3:2: "), HasSubstr("blue, red, got 'pink'")));
  EXPECT_THAT(evaluation_refusal("size,color,kind\n1,red,z\n", trained),
              AllOf(HasSubstr("other.csv:2:3: "), HasSubstr("x, y, got 'z'")));
  const Preprocessing whole = kept(*train("a,t,k\n1,p,x\n2,q,y\n"));
  EXPECT_THAT(evaluation_refusal("a,t,k\n,p,x\n", whole), HasSubstr("other.csv:2:1: "));
  EXPECT_THAT(evaluation_refusal("a,t,k\n1,,x\n", whole), HasSubstr("other.csv:2:2: "));
  EXPECT_EQ(evaluate("a,t,k\n1,,x\n1,p,x\n", whole, {.missing = Missing::drop})->size(), 1);
  EXPECT_THAT(error_of<ConfigError>([&] { evaluate("a,t,k\n1,p,x\n", Preprocessing{}); }),
              HasSubstr("custom data"));
}

TEST_F(TableTest, WholeClassesAreFoundByValue) {
  const Preprocessing trained = kept(*train(labelled({"9.0", "10"}, 20)));
  EXPECT_EQ(label_of(*evaluate("a,b,y\n1,2,9\n", trained), 0, 0), 0);
  EXPECT_THAT(evaluation_refusal("a,b,y\n1,2,11\n", trained), HasSubstr("9.0, 10, got '11'"));
}

TEST_F(TableTest, TheValidationPartIsThatOfTraining) {
  std::string text = "a,k\n";
  for (int row = 0; row < 50; ++row)
    text += fmt::format("{},{}\n", row % 9 == 0 ? "" : std::to_string(row), row % 2);
  const TableOptions options{.missing = Missing::drop};
  const DataSplit split = csv(write("t.csv", text), options, 0.2, 3);
  const Preprocessing record = kept(*split.train);
  const DataSplit again = csv(path("t.csv"), options, 0.2, 3, &record);
  EXPECT_EQ(again.train, nullptr);
  EXPECT_EQ(again.validation->fingerprint(), split.validation->fingerprint());
}

TEST_F(TableTest, InputsAreTheFeaturesOfGoodRows) {
  const auto table = train(kTrained, kTrainedOptions);
  const Preprocessing trained = kept(*table);
  const TableInputs inputs = read_table_inputs(
      "stdin",
      "id\tcolor\tsize\na,1\tred\t1\nb\tpink\t3\nc\tblue\t3\nd\t\t5\t6\ne\tred\tbig\nf\t\t\n",
      trained);
  EXPECT_THAT(inputs.lines, ElementsAre(2, 4, 7));
  EXPECT_THAT(inputs.ids, ElementsAre("a,1", "c", "f"));
  ASSERT_EQ(inputs.values.size(), 12u);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(Floats(inputs.values.begin() + 4 * i, inputs.values.begin() + 4 * (i + 1)),
              features_of(*table, i));
  ASSERT_EQ(inputs.bad.size(), 3u);
  EXPECT_EQ(inputs.bad[0].line, 3);
  EXPECT_THAT(inputs.bad[0].reason, AllOf(HasSubstr("got 'pink'"), HasSubstr("'color'")));
  EXPECT_EQ(inputs.bad[1].line, 5);
  EXPECT_THAT(inputs.bad[1].reason, HasSubstr("expected 3 fields as in the header, got 4"));
  EXPECT_EQ(inputs.bad[2].line, 6);
  EXPECT_THAT(read_table_inputs("x", "color,size,kind\nred,1,nonsense\n", trained).ids, IsEmpty());
  EXPECT_THAT(error_of<DataError>([&] { read_table_inputs("x", "size\n1\n", trained); }),
              HasSubstr("x:1: expected the feature column 'color'"));
}

TEST_F(TableTest, BadRowsAreLimited) {
  const Preprocessing trained = kept(*train("a,b,k\n1,2,x\n3,4,y\n"));
  std::string text = "a,b\n";
  for (std::size_t row = 0; row < kMaxBadRows; ++row) text += "x,\n";
  EXPECT_EQ(read_table_inputs("x", text, trained).bad.size(), kMaxBadRows);
  EXPECT_THAT(error_of<DataError>([&] { read_table_inputs("x", text + "x,\n", trained); }),
              HasSubstr("line 2: expected a finite number, got 'x'"));
}

}  // namespace
}  // namespace lockstep::data
