// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/evaluation_metrics.h"

#include <cmath>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

data::Preprocessing record_of(data::Task task, std::int64_t outputs) {
  data::Preprocessing record;
  record.task = task;
  const bool classes = task == data::Task::classification;
  record.samples.classes = classes ? int(outputs) : 0;
  record.samples.target = classes ? TensorType{{}, DType::i32} : TensorType{{outputs}, DType::f32};
  return record;
}

TEST(EvaluationMetrics, ClassesAndConfusions) {
  auto record = record_of(data::Task::classification, 3);
  record.class_names = {"a", "b", "c"};
  LabelledPredictions said;
  //               label, predicted, likelier
  said.classes = {{0, 0, 0}, {0, 1, 1}, {0, 1, 2}, {1, 1, 0}, {1, 0, 1}};
  const EvaluationMetrics metrics = compute_metrics(record, said);
  EXPECT_FALSE(metrics.top5);
  ASSERT_EQ(metrics.classes.size(), 3u);
  EXPECT_DOUBLE_EQ(metrics.classes[0].recall(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.classes[0].precision(), 1.0 / 2);
  EXPECT_DOUBLE_EQ(metrics.classes[0].f1(), 2.0 / 5);
  EXPECT_TRUE(std::isnan(metrics.classes[2].recall()));
  EXPECT_TRUE(std::isnan(metrics.classes[2].f1()));
  ASSERT_EQ(metrics.confusions.size(), 2u);
  EXPECT_EQ(metrics.confusions[0].label, "a");
  EXPECT_EQ(metrics.confusions[0].predicted, "b");
  EXPECT_EQ(metrics.confusions[0].samples, 2);
  EXPECT_EQ(metrics.matrix,
            (std::vector<std::vector<std::int64_t>>{{1, 2, 0}, {1, 1, 0}, {0, 0, 0}}));
}

TEST(EvaluationMetrics, NoMatrixOfVeryManyClasses) {
  LabelledPredictions said;
  said.classes = {{0, 99, 4}};
  EXPECT_EQ(
      compute_metrics(record_of(data::Task::classification, kMaxMatrixClasses), said).matrix[0][99],
      1);
  EXPECT_TRUE(compute_metrics(record_of(data::Task::classification, kMaxMatrixClasses + 1), said)
                  .matrix.empty());
}

TEST(EvaluationMetrics, TopFiveOfMoreThanFiveClasses) {
  LabelledPredictions said;
  said.classes = {{0, 0, 0}, {1, 0, 4}, {2, 0, 5}, {3, 0, 6}};
  const auto record = record_of(data::Task::classification, 7);
  EXPECT_DOUBLE_EQ(compute_metrics(record, said).top5.value(), 0.5);
}

TEST(EvaluationMetrics, NumbersAreInTheTablesUnits) {
  auto record = record_of(data::Task::regression, 2);
  record.table.emplace();
  record.table->targets = {{"price", 100, 10}, {"weight", 0, 1}};
  LabelledPredictions said;
  said.targets = {-1, 5, 0, 5, 1, 5};      // price 90, 100, 110
  said.predictions = {-1, 5, 1, 6, 1, 4};  // price 90, 110, 110
  const EvaluationMetrics metrics = compute_metrics(record, said);
  ASSERT_EQ(metrics.targets.size(), 2u);
  EXPECT_EQ(metrics.targets[0].name, "price");
  EXPECT_DOUBLE_EQ(metrics.targets[0].r2, 1 - 100.0 / 200);
  EXPECT_DOUBLE_EQ(metrics.targets[0].rmse, std::sqrt(100.0 / 3));
  EXPECT_DOUBLE_EQ(metrics.targets[0].mae, 10.0 / 3);
  EXPECT_TRUE(std::isnan(metrics.targets[1].r2));
  EXPECT_DOUBLE_EQ(metrics.targets[1].mae, 2.0 / 3);
}

TEST(EvaluationMetrics, NumbersThatAreAllTheSameHaveNoR2) {
  auto record = record_of(data::Task::regression, 1);
  record.table.emplace();
  record.table->targets = {{"price", 100.1, 1}};
  LabelledPredictions said;
  // Their sum over 49 is not 100.1, so that the spread around the mean is not 0.
  said.targets.assign(49, 0);
  said.predictions.assign(49, 0.5f);
  const EvaluationMetrics metrics = compute_metrics(record, said);
  ASSERT_EQ(metrics.targets.size(), 1u);
  EXPECT_TRUE(std::isnan(metrics.targets[0].r2)) << metrics.targets[0].r2;
  EXPECT_DOUBLE_EQ(metrics.targets[0].mae, 0.5);
}

TEST(EvaluationMetrics, LabelsAreCountedOneByOne) {
  auto record = record_of(data::Task::multi_label, 2);
  record.class_names = {"red", "big"};
  LabelledPredictions said;
  said.targets = {1, 0, 1, 1, 0, 0};
  said.predictions = {2, -1, -2, 3, 0, -1};  // logits; 0 is a probability of a half
  const EvaluationMetrics metrics = compute_metrics(record, said);
  ASSERT_EQ(metrics.classes.size(), 2u);
  EXPECT_DOUBLE_EQ(metrics.classes[0].recall(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.classes[0].precision(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.classes[1].f1(), 1.0);
  EXPECT_TRUE(metrics.confusions.empty());
}

}  // namespace
}  // namespace lockstep
