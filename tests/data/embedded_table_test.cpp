// SPDX-License-Identifier: Apache-2.0
// Tables with columns of many categories, which are embedded; table_test.cpp has the others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/data/table/table_inputs.h"
#include "lockstep/data/sources.h"
#include "tests/data/table_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Floats = std::vector<float>;

class EmbeddedTableTest : public TableFixture {};

/// size, town of `towns` different texts, kind; the town of every tenth row is missing where
/// `gaps`.
std::string towns_table(int towns, bool gaps = false) {
  std::string text = "size,town,color,kind\n";
  for (int row = 0; row < 2 * towns; ++row) {
    const int town = (row * 7) % towns;
    text += fmt::format("{},{},{},{}\n",
                        row,
                        gaps && row % 10 == 0 ? "" : fmt::format("t{:03}", town),
                        row % 2 == 0 ? "red" : "blue",
                        row % 2);
  }
  return text;
}

TEST_F(EmbeddedTableTest, ManyTextsBecomeOneFeatureThatIsEmbedded) {
  const auto few = train(towns_table(31));
  EXPECT_EQ(few->spec().input.to_string(), "f32[34]");
  EXPECT_THAT(few->spec().embedded, IsEmpty());

  const auto many = train(towns_table(32));
  EXPECT_EQ(many->spec().input.to_string(), "f32[4]");
  EXPECT_THAT(many->spec().embedded, ElementsAre(EmbeddedColumn{1, 32}));
  for (const int row : {0, 1, 31, 40}) {
    const Floats features = features_of(*many, row);
    EXPECT_EQ(features[1], float(row * 7 % 32));  // texts are sorted
    EXPECT_EQ(features[2], float(row % 2)) << "blue";
    EXPECT_EQ(features[3], float(1 - row % 2)) << "red";
  }
  const Preprocessing record = kept(*many);
  EXPECT_EQ(*record.table, *many->preprocessing().table);
  EXPECT_EQ(record.samples.embedded, many->spec().embedded);
  EXPECT_TRUE(record.table->columns[1].embedded);
  EXPECT_FALSE(record.table->columns[2].embedded);

  const auto one_hot = train(towns_table(32), {.one_hot_columns = {"town", "elsewhere"}});
  EXPECT_EQ(one_hot->spec().input.to_string(), "f32[35]");
  EXPECT_THAT(one_hot->spec().embedded, IsEmpty());
  EXPECT_NE(one_hot->fingerprint(), many->fingerprint());
}

TEST_F(EmbeddedTableTest, AMissingTextIsTheLastOfTheEmbeddedCategories) {
  const auto table = train(towns_table(31, /*gaps=*/true), {.missing = Missing::category});
  EXPECT_THAT(table->spec().embedded, ElementsAre(EmbeddedColumn{1, 32}));
  EXPECT_EQ(features_of(*table, 0)[1], 31.0f);
  EXPECT_EQ(features_of(*table, 1)[1], 7.0f);
}

TEST_F(EmbeddedTableTest, OtherTablesFindTheirEmbeddedCategoriesByTheRecord) {
  const Preprocessing trained = kept(*train(towns_table(100)));
  const auto other = evaluate("town;kind;color;size\nt042;1;red;3\nt099;0;blue;5\n", trained);
  EXPECT_EQ(other->spec().embedded, trained.samples.embedded);
  EXPECT_EQ(features_of(*other, 0)[1], 42.0f);
  EXPECT_EQ(features_of(*other, 1)[1], 99.0f);
  EXPECT_EQ(evaluate(towns_table(100), trained)->fingerprint(),
            train(towns_table(100))->fingerprint());
  // As of a one-hot column.
  EXPECT_THAT(evaluation_refusal("town,kind,color,size\nt100,1,red,3\n", trained),
              AllOf(HasSubstr("other.csv:2:1: expected one of the 100 categories of training"),
                    HasSubstr("got 't100' (column 'town')")));
  EXPECT_THAT(evaluation_refusal("town,kind,color,size\n,1,red,3\n", trained),
              HasSubstr("other.csv:2:1: "));
  const TableInputs inputs =
      read_table_inputs("stdin", "size,town,color\n1,t007,red\n1,t100,red\n", trained);
  ASSERT_EQ(inputs.values.size(), 4u);
  EXPECT_EQ(inputs.values[1], 7.0f);
  ASSERT_EQ(inputs.bad.size(), 1u);
  EXPECT_EQ(inputs.bad[0].line, 3);
}

TEST_F(EmbeddedTableTest, TheRecordOfARunThatWasOneHotGoesOn) {
  const Preprocessing trained = kept(*train(towns_table(100), {.one_hot_columns = {"town"}}));
  const auto other = evaluate("town;kind;color;size\nt042;1;red;3\n", trained);
  EXPECT_EQ(other->spec().input.to_string(), "f32[103]");
  EXPECT_EQ(features_of(*other, 0)[1 + 42], 1.0f);
  EXPECT_THAT(other->spec().embedded, IsEmpty());
}

}  // namespace
}  // namespace lockstep::data
