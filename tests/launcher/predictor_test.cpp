// SPDX-License-Identifier: Apache-2.0
#include "lockstep/predictor.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <unistd.h>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "lockstep/job.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A trained model of a table of three separable kinds, saved in a folder of its own.
class SavedTable : public ::testing::Test {
 protected:
  SavedTable()
      : folder_(fs::temp_directory_path() / fmt::format("lockstep-predictor-{}", getpid())),
        job_(0, nullptr),
        model_(nn::make_model({.name = "mlp", .outputs = 3, .hidden = {8}})) {
    fs::create_directories(folder_);
    std::ofstream table(folder_ / "table.csv");
    table << "a,b,label\n";
    for (int i = 0; i < 60; ++i)
      table << i % 3 + 0.01 * (i % 7) << "," << 2 - i % 3 + 0.01 * (i % 5) << ",k" << i % 3 << "\n";
    table.close();
    job_.open_device("cpu");
    Trainer trainer(
        job_, model_, softmax_cross_entropy, {.global_batch = 20, .micro_batch = 10, .steps = 100});
    trainer.fit(data::csv((folder_ / "table.csv").string()));
    trainer.save(saved());
  }
  ~SavedTable() override { fs::remove_all(folder_); }

  std::string saved() const { return (folder_ / "new/saved").string(); }

  fs::path folder_;
  Job job_;
  ModelFunction model_;
};

TEST_F(SavedTable, RowsAreNamedByTheirColumns) {
  Predictor predictor(job_.backend(), model_, saved());
  const std::vector<float> said =
      predictor.predict_row({{"b", "1.0"}, {"a", "1"}, {"more, \"or\" less", "x\"y"}});
  ASSERT_EQ(said.size(), 3u);
  EXPECT_NEAR(std::accumulate(said.begin(), said.end(), 0.0), 1, 1e-6);
  const auto best = std::size_t(std::max_element(said.begin(), said.end()) - said.begin());
  EXPECT_EQ(predictor.name(best), "k1");
  EXPECT_EQ(predictor.record().table->columns.size(), 2u);

  // The same sample, standardised here.
  std::vector<float> sample;
  for (const data::ColumnRecord& column : predictor.record().table->columns)
    sample.push_back(float((1.0 - column.mean) / column.deviation));
  EXPECT_EQ(predictor.predict(std::as_bytes(std::span(sample))), said);
}

// A table with an embedded column: the same rows, one by one.
TEST_F(SavedTable, EmbeddedCategoriesAreLookedUp) {
  std::ofstream table(folder_ / "towns.csv");
  table << "a,town,label\n";
  for (int i = 0; i < 200; ++i) table << i % 5 << ",t" << i % 40 << ",k" << i % 40 / 14 << "\n";
  table.close();
  const data::DataSplit data = data::csv((folder_ / "towns.csv").string());
  ASSERT_EQ(data.train->spec().embedded.size(), 1u);
  Trainer trainer(job_,
                  model_,
                  softmax_cross_entropy,
                  {.global_batch = 20,
                   .micro_batch = 10,
                   .steps = 300,
                   .optimizer = Sgd{.lr = 0.1f, .momentum = 0.9f}});
  trainer.fit(data);
  trainer.save(saved());
  Predictor predictor(job_.backend(), model_, saved());
  for (int i = 0; i < 40; ++i) {
    const std::vector<float> said =
        predictor.predict_row({{"a", std::to_string(i % 5)}, {"town", fmt::format("t{}", i)}});
    const auto best = std::size_t(std::max_element(said.begin(), said.end()) - said.begin());
    EXPECT_EQ(predictor.name(best), fmt::format("k{}", i / 14)) << i;
    std::vector<std::byte> sample(2 * sizeof(float)), label(sizeof(std::int32_t));
    data.train->load(0, i, sample.data(), label.data());
    EXPECT_EQ(predictor.predict(sample), said) << i;
  }
  EXPECT_THROW(predictor.predict_row({{"a", "1"}, {"town", "t40"}}), DataError);
  EXPECT_THROW(predictor.predict_row({{"a", "1"}, {"town", ""}}), DataError);
}

TEST_F(SavedTable, WhatTheModelCannotTakeIsRefused) {
  Predictor predictor(job_.backend(), model_, saved());
  EXPECT_THROW(predictor.predict_row({{"a", "1"}}), DataError);
  EXPECT_THROW(predictor.predict_row({{"a", "1"}, {"b", "many"}}), DataError);
  EXPECT_THROW(predictor.predict_image("a.jpg"), ConfigError);
  EXPECT_THROW(predictor.predict(std::vector<std::byte>(7)), ConfigError);
  fs::remove(saved() + "/preprocessing.json");
  EXPECT_THROW(Predictor(job_.backend(), model_, saved()), DataError);
}

}  // namespace
}  // namespace lockstep
