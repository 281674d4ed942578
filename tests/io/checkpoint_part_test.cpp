// SPDX-License-Identifier: Apache-2.0
// A checkpoint that several ranks write, here threads: its bytes, and what becomes of it where one
// of them fails, is late or never comes.
#include "core/io/checkpoint/checkpoint_part.h"

#include <deque>
#include <fstream>
#include <sys/stat.h>
#include <thread>

#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/checkpoint/checkpoint_writer.h"
#include "tests/io/checkpoint_fixture.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::content_of;
using lockstep::testing::SmallCheckpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointPart : public CheckpointTest {
 protected:
  /// What `rank` of `ranks` has of a checkpoint: every so many-th tensor.
  static CheckpointContent part(const SmallCheckpoint& small, int rank, int ranks) {
    CheckpointContent content = small.content();
    content.writers = {.rank = rank, .others = {}, .id = "0123456789abcdef-7", .patience_s = 20};
    for (int r = 1; r < ranks; ++r) content.writers.others.push_back(r);
    for (auto* tensors : {&content.model, &content.optimizer})
      for (std::size_t i = 0; i < tensors->size(); ++i)
        if (int(i) % ranks != rank) (*tensors)[i].stored = {};
    return content;
  }
  fs::path unfinished(std::int64_t step) const {
    return folder_ / unfinished_name(step, "0123456789abcdef-7");
  }
  /// Rank 0's, which writes nothing of its own where the others write it all.
  static CheckpointResult result_of(CheckpointWriter& writer) {
    writer.wait();
    return writer.take_results().at(0);
  }
};

TEST_F(CheckpointPart, TheBytesAreThoseOfOneWriter) {
  const SmallCheckpoint small(9, 40'000);  // a tensor of several pieces
  const fs::path alone = write_checkpoint(root_ / "alone", small.content());
  for (const int ranks : {2, 3, 4}) {
    std::deque<CheckpointWriter> writers;
    for (int r = 0; r < ranks; ++r) writers.emplace_back(folder_, 2);
    // Rank 0 comes last: the others wait for its files.
    for (int r = ranks; r-- > 0;) writers[std::size_t(r)].start(part(small, r, ranks));
    for (CheckpointWriter& writer : writers) EXPECT_EQ(result_of(writer).error, "");
    EXPECT_THAT(names(), ElementsAre("step_00000009"));
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "step_00000009")) {
      ++files;
      EXPECT_TRUE(content_of(entry.path()) == content_of(alone / entry.path().filename()))
          << entry.path() << " of " << ranks << " ranks";
    }
    EXPECT_EQ(files, 5u);
    EXPECT_EQ(small.difference(folder_ / "step_00000009"), "");
    fs::remove_all(folder_);
  }
}

TEST_F(CheckpointPart, ARankThatNeverComesFailsTheSave) {
  save(3);
  const SmallCheckpoint small(4);
  CheckpointContent leading = part(small, 0, 3);
  leading.writers.patience_s = 0.05;
  try {
    write_checkpoint(folder_, leading);
    ADD_FAILURE();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks 1, 2 have not written their parts within 0 s"));
  }
  EXPECT_THAT(names(), ElementsAre("step_00000003"));

  SaveProgress late;  // which finds nothing to write into
  std::thread ends([&] { late.end_waiting("the save has ended"); });
  EXPECT_THROW(write_checkpoint_part(folder_, part(small, 1, 3), late), EnvironmentError);
  ends.join();
  EXPECT_THAT(names(), ElementsAre("step_00000003"));
}

/// A full disk takes no file that would say so: rank 0 learns of it by other means.
TEST_F(CheckpointPart, ARankThatFailsEndsTheWait) {
  const SmallCheckpoint small(4), next(5);
  CheckpointWriter leader(folder_, 2), other(folder_, 2);
  leader.start(part(small, 0, 2));
  ASSERT_TRUE(leader.wait_for(SaveStage::part_written, 20));
  EXPECT_FALSE(leader.wait_for(SaveStage::over, 0.02));
  fs::create_directory(unfinished(4) / "part_00001.tmp");  // in the way of the part
  other.start(part(small, 1, 2));
  const CheckpointResult failed = result_of(other);
  EXPECT_THAT(failed.error, AllOf(HasSubstr("part_00001.tmp"), HasSubstr("Is a directory")));
  leader.end_waiting("rank 1: " + failed.error, failed.hint);
  EXPECT_THAT(result_of(leader).error, HasSubstr("rank 1: "));
  EXPECT_THAT(names(), IsEmpty());

  leader.start(part(next, 0, 2));
  other.start(part(next, 1, 2));
  EXPECT_EQ(result_of(leader).error, "");
  EXPECT_EQ(next.difference(folder_ / "step_00000005"), "");
}

/// The leftovers of a save, in which a late rank may still be writing, are those of no other.
TEST_F(CheckpointPart, SavesDoNotMeetInOneFolder) {
  const fs::path stale = folder_ / unfinished_name(6, "0123456789abcdef-6");
  fs::create_directories(stale);
  std::ofstream(stale / "part_00001.json") << R"({"model.safetensors":{"fc.bias":"0"}})";
  const SmallCheckpoint small(6);
  CheckpointWriter leader(folder_, 2), other(folder_, 2);
  leader.start(part(small, 0, 2));
  other.start(part(small, 1, 2));
  EXPECT_EQ(result_of(leader).error, "");
  EXPECT_EQ(small.difference(folder_ / "step_00000006"), "");
  EXPECT_THAT(names(), ElementsAre("step_00000006"));
}

TEST_F(CheckpointPart, PartsThatAreNoneAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "no rank has written tensor 'conv.weight'"},
      {R"({"model.safetensors":{"fc.bias":1}})", "is not a valid part"},
      {R"({"model.safetensors":{"fc.weight":"0","fc.weight":"0"}})", "twice"},
      {R"({"model.safetensors":{"head.weight":"0"}})", "was written twice"},
      {"[", "part_00001.json"}};
  for (const auto& [text, expected] : cases) {
    const SmallCheckpoint small(4);
    CheckpointContent leading = part(small, 0, 2);
    leading.model[0].stored = {};                                   // of no rank
    leading.model[3].stored = small.content().model.back().stored;  // head.weight
    CheckpointWriter leader(folder_, 2);
    leader.start(std::move(leading));
    ASSERT_TRUE(leader.wait_for(SaveStage::part_written, 20));
    std::ofstream(unfinished(4) / "other") << text;
    fs::rename(unfinished(4) / "other", unfinished(4) / part_name(1));
    EXPECT_THAT(result_of(leader).error, HasSubstr(expected));
    EXPECT_THAT(names(), IsEmpty());
  }
}

/// A run that ends with an error does not wait for ranks that have gone.
TEST_F(CheckpointPart, DestructorsOfOtherRanksDoNotWaitForever) {
  const SmallCheckpoint small(4);
  SaveProgress progress;
  EXPECT_FALSE(progress.wait_for(SaveStage::writing, 0.01));
  progress.end_waiting("first");
  progress.end_waiting("second");
  try {
    write_checkpoint_part(folder_, part(small, 1, 2), progress);
    ADD_FAILURE();
  } catch (const EnvironmentError& error) {
    EXPECT_STREQ(error.what(), "first");
  }
}

}  // namespace
}  // namespace lockstep::io
