// SPDX-License-Identifier: Apache-2.0
#include "core/io/checkpoint/checkpoint_writer.h"

#include <fstream>

#include "tests/io/checkpoint_fixture.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::SmallCheckpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Writer = CheckpointTest;

TEST_F(Writer, SavesInOrderAndRemovesOldOnes) {
  CheckpointWriter writer(folder_, 2);
  EXPECT_TRUE(writer.idle());
  EXPECT_THAT(writer.take_results(), IsEmpty());
  for (std::int64_t step = 1; step <= 5; ++step) {
    const SmallCheckpoint small(step);
    writer.start(small.content());
    writer.wait();
    EXPECT_TRUE(writer.idle());
  }
  const std::vector<CheckpointResult> results = writer.take_results();
  ASSERT_EQ(results.size(), 5u);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].step, std::int64_t(i) + 1);
    EXPECT_EQ(results[i].path, folder_ / checkpoint_name(results[i].step));
    EXPECT_EQ(results[i].error, "");
    EXPECT_THAT(results[i].not_removed, IsEmpty());
    EXPECT_GT(results[i].seconds, 0);
  }
  EXPECT_THAT(writer.take_results(), IsEmpty());
  // 1 is the best.
  EXPECT_THAT(names(), ElementsAre("step_00000001", "step_00000004", "step_00000005"));
}

TEST_F(Writer, TensorsMayChangeOnceIdle) {
  CheckpointWriter writer(folder_, 100);
  std::vector<float> values(1 << 16);
  Parameter parameter;
  parameter.name = "w";
  parameter.shape = {1 << 16};
  parameter.file_layout = {{1 << 16}, {}, {1 << 16}};
  std::int64_t saves = 0;
  for (int round = 0; saves < 10; ++round) {
    if (!writer.idle()) {
      for (const CheckpointResult& result : writer.take_results()) EXPECT_EQ(result.error, "");
      continue;
    }
    std::ranges::fill(values, float(++saves));
    CheckpointContent content;
    content.state.step = saves;
    content.model.push_back({"w", &parameter, values});
    writer.start(std::move(content));
  }
  writer.wait();
  for (std::int64_t step = 1; step <= saves; ++step) {
    EXPECT_EQ(complaint(folder_ / checkpoint_name(step)), "");
    const SafetensorsReader reader(folder_ / checkpoint_name(step) / "model.safetensors");
    EXPECT_EQ(reader.read<float>("w"), std::vector<float>(1 << 16, float(step)));
  }
}

TEST_F(Writer, RefusesASecondSaveMeanwhile) {
  CheckpointWriter writer(folder_, 1);
  const SmallCheckpoint small(2);
  CheckpointContent content = small.content();
  content.texts["large.txt"] = std::string(std::size_t{32} << 20, 'x');
  CheckpointContent second = content;
  writer.start(std::move(content));
  EXPECT_THROW(writer.start(std::move(second)), InternalError);
  EXPECT_FALSE(writer.idle());
  writer.wait();
  ASSERT_EQ(writer.take_results().size(), 1u);
  EXPECT_EQ(complaint(folder_ / "step_00000002"), "");
}

TEST_F(Writer, DestructorFinishesTheSave) {
  const SmallCheckpoint small(1);
  { CheckpointWriter(folder_, 1).start(small.content()); }
  EXPECT_EQ(small.difference(folder_ / "step_00000001"), "");
}

TEST_F(Writer, ErrorsAreResults) {
  std::ofstream(root_ / "run") << "a file where the folder should be";
  CheckpointWriter writer(folder_, 2);
  const SmallCheckpoint small(1), after(2);
  writer.start(small.content());
  writer.wait();
  std::vector<CheckpointResult> results = writer.take_results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].error, AllOf(HasSubstr("run"), HasSubstr("Not a directory")));
  EXPECT_NE(results[0].hint, "");
  EXPECT_EQ(results[0].step, 1);

  fs::remove(root_ / "run");
  CheckpointContent broken = after.content();
  broken.model[0].parameter = nullptr;
  writer.start(std::move(broken));
  writer.wait();
  results = writer.take_results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].error, HasSubstr("invariant"));

  writer.start(after.content());
  writer.wait();
  EXPECT_EQ(writer.take_results().at(0).error, "");
  EXPECT_EQ(after.difference(folder_ / "step_00000002"), "");
}

}  // namespace
}  // namespace lockstep::io
