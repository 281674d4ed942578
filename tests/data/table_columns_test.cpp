// SPDX-License-Identifier: Apache-2.0
// What the columns of a table are taken for: names that are not unique or are numbers, texts among
// numbers, numbers at the edges of doubles.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/parameter_names.h"
#include "core/data/table/table_inputs.h"
#include "tests/data/table_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Floats = std::vector<float>;

class TableColumns : public TableFixture {
 protected:
  /// Rows "I,I % 5,x or y" after `header`, and then `more`.
  static std::string rows(const std::string& header, int count, const std::string& more = "") {
    std::string text = header + "\n";
    for (int row = 0; row < count; ++row)
      text += fmt::format("{},{},{}\n", row, row % 5, row % 2 == 0 ? "x" : "y");
    return text + more;
  }
  static std::vector<std::string> categories(const Dataset& table, std::size_t column) {
    return table.preprocessing().table->columns.at(column).categories;
  }
  /// Of rows of a table by a record, in the order of the file.
  static Floats inputs(const std::string& text, const Preprocessing& trained) {
    const TableInputs inputs = read_table_inputs("x", text, trained);
    EXPECT_THAT(inputs.bad, IsEmpty());
    return inputs.values;
  }
};

TEST_F(TableColumns, ADroppedColumnMayHaveTheNameOfAFeature) {
  const std::string text = "a,a,k,a\n1,10,x,7\n3,30,y,7\n5,50,x,8\n";
  const std::vector<std::string> names = {"1", "2", "4"};
  for (std::size_t used = 0; used < 3; ++used) {
    std::vector<std::string> dropped = names;
    dropped.erase(dropped.begin() + std::ptrdiff_t(used));
    const auto table = train(text, {.label_columns = {"k"}, .dropped = dropped});
    const Preprocessing trained = kept(*table);
    EXPECT_EQ(*trained.table, *table->preprocessing().table);
    EXPECT_EQ(evaluate(text, trained)->fingerprint(), table->fingerprint()) << used;
    Floats expected;
    for (int row = 0; row < 3; ++row) expected.push_back(features_of(*table, row)[0]);
    EXPECT_EQ(inputs(text, trained), expected) << used;
    // The label may be absent, and so may the columns that were dropped.
    EXPECT_EQ(inputs("a,a,a\n1,10,7\n3,30,7\n5,50,8\n", trained), expected) << used;
    const char* const alone[] = {"a\n1\n3\n5\n", "a\n10\n30\n50\n", "a\n7\n7\n8\n"};
    EXPECT_EQ(inputs(alone[used], trained), expected) << used;
    EXPECT_THAT(evaluation_refusal("a,a,k\n1,10,x\n", trained),
                HasSubstr("more than one column is named 'a'"));
  }
}

TEST_F(TableColumns, ADroppedColumnMayHaveTheNameOfALabelOrId) {
  const std::string text = "k,id,a,k,id\nx,r1,1,p,7\ny,r2,2,q,8\nx,r3,4,q,9\n";
  const auto table = train(text, {.dropped = {"1", "5"}, .id_columns = {"2"}});
  const Preprocessing trained = kept(*table);
  EXPECT_THAT(table->class_names(), ElementsAre("p", "q"));
  EXPECT_EQ(evaluate(text, trained)->fingerprint(), table->fingerprint());
  EXPECT_THAT(read_table_inputs("x", text, trained).ids, ElementsAre("r1", "r2", "r3"));
}

TEST_F(TableColumns, AHintThatDropsAColumnNamesThatColumn) {
  // '2' is the name of the third.
  const std::string text = "1,1,2,k\n1,5,9,x\n3,7,9,y\n";
  EXPECT_THAT(refusal<DataError>(text), HasSubstr("`drop` -3"));
  const auto table = train(text, {.dropped = {"-3"}});
  EXPECT_EQ(table->spec().input.to_string(), "f32[2]");
  EXPECT_EQ(table->preprocessing().table->columns[0].mean, 2);
}

TEST_F(TableColumns, AStrayTextAmongNumbersIsNamed) {
  const std::string text = rows("a,b,k", 60, "1,3x,x\n");
  const std::string refused = refusal<DataError>(text);
  EXPECT_THAT(refused, HasSubstr("table.csv:62:2: expected a finite number"));
  for (const char* part : {"60 of 61",
                           "'3x'",
                           "'b'",
                           "`missing`",
                           "`categorical` 'b'",
                           "`drop` 'b'",
                           "`skip_bad_samples`"})
    EXPECT_THAT(refused, HasSubstr(part));
  EXPECT_THAT(categories(*train(text, {.categorical = {"b"}}), 1),
              ElementsAre("0", "1", "2", "3", "3x", "4"));
  EXPECT_EQ(train(text, {.dropped = {"b"}})->spec().input.to_string(), "f32[1]");
  // Several texts are stray as well, where they are at most a tenth.
  EXPECT_THAT(refusal<DataError>(rows("a,b,k", 18, "1,-,x\n1,none,y\n")), HasSubstr(":20:2: "));
}

TEST_F(TableColumns, NumbersAndManyTextsAreCategoriesAndSaid) {
  const auto table = train(rows("a,b,k", 10, "1,3+,x\n1,many,y\n"));
  EXPECT_THAT(categories(*table, 1), ElementsAre("0", "1", "2", "3", "3+", "4", "many"));
  EXPECT_THAT(table->describe(),
              AllOf(HasSubstr("'b'"), HasSubstr("'3+' in line 12"), Not(HasSubstr("'a'"))));
  // Texts alone need no word.
  EXPECT_THAT(train("a,b,k\n1,p,x\n2,q,y\n")->describe(), Not(HasSubstr("'b'")));
  std::string different = "a,b,k\n";
  for (int row = 0; row < 44; ++row)
    different += fmt::format("{},{},{}\n", row, row % 4 == 0 ? "t" : std::to_string(row), row % 2);
  EXPECT_THAT(refusal<DataError>(different), HasSubstr("table.csv:2:2: expected a finite number"));
  EXPECT_EQ(categories(*train(different, {.categorical = {"b"}}), 1).size(), 34u);
}

TEST_F(TableColumns, NumbersAreCategoriesWhereTheUserSaysSo) {
  const std::string text = "zip,a,k\n10,1,x\n20,2,y\n10,3,x\n";
  const auto table = train(text, {.categorical = {"zip"}});
  EXPECT_THAT(categories(*table, 0), ElementsAre("10", "20"));
  EXPECT_EQ(train(text, {.categorical = {"1"}})->fingerprint(), table->fingerprint());
  EXPECT_EQ(evaluate(text, kept(*table))->fingerprint(), table->fingerprint());
  std::string many = "zip,k\n";
  for (int row = 0; row < 200; ++row) many += fmt::format("{},{}\n", row + 1000, row % 2);
  EXPECT_EQ(categories(*train(many, {.categorical = {"zip"}}), 0).size(), 200u);
  for (const char* column : {"k", "nothing"})
    EXPECT_THAT(refusal<ConfigError>(text, {.categorical = {column}}),
                AllOf(HasSubstr("`categorical`"), HasSubstr(column)));
  EXPECT_THAT(refusal<ConfigError>(text, {.dropped = {"zip"}, .categorical = {"zip"}}),
              HasSubstr("'zip'"));
}

TEST_F(TableColumns, EqualNumbersAreOneCategory) {
  const std::string text = "b,a,k\n1.0,1,x\np,2,y\n1,3,x\n1e0,4,x\nq,5,y\n-0.0,6,x\n0,7,y\n";
  const auto table = train(text);
  EXPECT_THAT(categories(*table, 0), ElementsAre("0", "1", "p", "q"));
  for (const int row : {2, 3})
    for (int f = 0; f < 4; ++f)
      EXPECT_EQ(features_of(*table, row)[std::size_t(f)], features_of(*table, 0)[std::size_t(f)]);
  EXPECT_EQ(features_of(*table, 5)[0], 1.0f);
  EXPECT_EQ(features_of(*table, 6)[0], 1.0f);
  EXPECT_THAT(table->describe(), AllOf(HasSubstr("'1.0'"), HasSubstr("'-0.0'")));
  const Preprocessing trained = kept(*table);
  EXPECT_EQ(evaluate(text, trained)->fingerprint(), table->fingerprint());
  EXPECT_EQ(inputs("b,a\n1.000,1\n", trained), features_of(*table, 0));
}

TEST_F(TableColumns, CodesThatAreNoNumbersStayDifferentCategories) {
  const auto table = train(
      "b,a,k\n007,1,x\n7,2,y\nA,3,x\n00,1,x\n0,1,y\nB,3,x\n"
      "9007199254740993,1,x\n9007199254740992,1,x\n");
  EXPECT_THAT(categories(*table, 0),
              ElementsAre("0", "00", "007", "7", "9007199254740992", "9007199254740993", "A", "B"));
}

TEST_F(TableColumns, EqualCategoriesOfAnOlderRecordStayApart) {
  Preprocessing trained = kept(*train("b,a,k\n1,1,x\np,2,y\nq,3,x\n"));
  trained.table->columns[0].categories = {"1", "1.0", "p"};
  EXPECT_EQ(inputs("b,a\n1,2\n1.0,2\n", trained), (Floats{1, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(read_table_inputs("x", "b,a\n1.00,2\n", trained).bad.size(), 1u);
}

TEST_F(TableColumns, NumbersMayBeNamesInAHeader) {
  const auto plain = train(rows("a,b,label", 20));
  for (const char* header : {"0,1,label", "1990,1991,label", "400.5,401.5,label"}) {
    const auto table = train(rows(header, 20));
    EXPECT_EQ(table->fingerprint(), plain->fingerprint()) << header;
    EXPECT_THAT(table->describe(), HasSubstr("header")) << header;
    EXPECT_EQ(evaluate(rows(header, 20), kept(*table))->fingerprint(), plain->fingerprint());
  }
  EXPECT_EQ(train(rows("0,1,2", 20))->fingerprint(), plain->fingerprint());
  EXPECT_EQ(train(rows("0,1,2", 20), {.label_columns = {"2"}})->fingerprint(),
            plain->fingerprint());
  EXPECT_THAT(plain->describe(), Not(HasSubstr("header")));
  // pandas writes its index under no name.
  const auto indexed = train(",0,1,label\n0,1,2,x\n1,3,4,y\n", {.id_columns = {"1"}});
  EXPECT_EQ(indexed->spec().input.to_string(), "f32[2]");
}

TEST_F(TableColumns, ARowOfDataIsNoHeader) {
  for (const char* first : {"5.1,3.5,x", "1,2,3", "5.1,3.5,1", "0,2,1"})
    EXPECT_THAT(refusal<DataError>(rows(first, 20)),
                HasSubstr("table.csv:1: expected a header line"))
        << first;
}

TEST_F(TableColumns, NumbersAtTheEdgesOfDoubles) {
  for (const char* tiny : {"1e-400",
                           "-1e-400",
                           "0.5e-999999999999999999999",
                           "0.00000000000000000000000000000001e-380"}) {
    const auto table = train(fmt::format("a,k\n{},x\n2,y\n1,x\n", tiny));
    EXPECT_EQ(table->preprocessing().table->columns[0].mean, 1) << tiny;
  }
  for (const std::string huge : {"1e400", "-1e400", "0.01e311", "1e999999999999999999999"})
    EXPECT_THAT(refusal<DataError>(fmt::format("a,k\n{},x\n2,y\n1,x\n", huge)),
                AllOf(HasSubstr(":2:1: expected a finite number, got '" + huge),
                      HasSubstr("largest double")));
  EXPECT_THAT(refusal<DataError>("a,k\ninf,x\n2,y\n1,x\n"), Not(HasSubstr("largest double")));
  EXPECT_EQ(train("a,k\n0.001e310,x\n0,y\n")->size(), 2);
}

TEST_F(TableColumns, WordsForNumbersAreClassesAmongNames) {
  const auto table = train("a,k\n1,x\n2,inf\n3,Infinity\n4,nan\n5,-inf\n");
  EXPECT_THAT(table->class_names(), ElementsAre("-inf", "Infinity", "inf", "nan", "x"));
  EXPECT_THAT(table->describe(), AllOf(HasSubstr("'nan'"), HasSubstr("`missing` drop")));
  EXPECT_EQ(evaluate("a,k\n1,nan\n", kept(*table))->size(), 1);
  EXPECT_EQ(train("a,k\n1,x\n2,nan\n3,y\n", {.missing = Missing::drop})->spec().classes, 2);
  EXPECT_THAT(refusal<DataError>("a,k\n1,inf\n2,1\n3,0\n"), HasSubstr(":2:2: "));
  EXPECT_THAT(refusal<DataError>("a,k\n1,nan\n2,1\n3,0\n"), HasSubstr(":2:2: "));
  EXPECT_THAT(refusal<DataError>("a,k\n1,x\n2,NA\n3,y\n"), HasSubstr(":3:2: "));
}

TEST_F(TableColumns, LargeLabelsAreNotSaidToBeFractions) {
  std::string text = "a,k\n";
  for (int row = 0; row < 9; ++row) text += fmt::format("{},{}\n", row, row == 4 ? "1e300" : "1");
  const auto table = train(text);
  EXPECT_EQ(table->preprocessing().task, Task::regression);
  EXPECT_THAT(table->describe(),
              AllOf(HasSubstr("'1e300' in line 6"), Not(HasSubstr("not whole"))));
  EXPECT_THAT(refusal<DataError>(text, {.task = Task::classification}),
              AllOf(HasSubstr(":6:2: "), HasSubstr("'1e300', past 2^53")));
}

TEST_F(TableColumns, AStrayTextAmongAmountsIsNamed) {
  std::string decimals = "a,price\n", whole = decimals;
  for (int row = 0; row < 30; ++row) {
    decimals += fmt::format("{},{}\n", row, row == 20 ? "call" : fmt::format("{}.5", row));
    whole += fmt::format("{},{}\n", row, row == 20 ? "call" : fmt::format("{}", 7 * row));
  }
  EXPECT_THAT(refusal<DataError>(decimals), HasSubstr("table.csv:22:2: expected a finite number"));
  EXPECT_THAT(refusal<ConfigError>(whole), HasSubstr("`task` regression"));
  EXPECT_THAT(refusal<DataError>(whole, {.task = Task::regression}), HasSubstr(":22:2: "));
  // Among few different numbers it is a class like others.
  EXPECT_EQ(train(rows("a,b,k", 0) + "1,2,0\n1,2,1\n1,2,0\n3,2,1\n1,2,other\n")->spec().classes, 3);
}

TEST_F(TableColumns, AColumnWithTheNameOfAParameterKeepsItInMessages) {
  set_parameter_style([](std::string_view name) { return "--" + std::string(name); });
  const std::string number = refusal<DataError>("a;`lr`;k\n1;1,5;x\n2;3;y\n");
  const std::string missing = refusal<DataError>("a,`lr`,k\n1,2,x\n2,,y\n");
  set_parameter_style(nullptr);
  EXPECT_THAT(number, HasSubstr("`lr`"));
  EXPECT_THAT(missing, HasSubstr("`lr`"));
}

}  // namespace
}  // namespace lockstep::data
