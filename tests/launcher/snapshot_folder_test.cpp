// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/snapshot_folder.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <sys/stat.h>

#include "core/io/checkpoint/checkpoint.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class SnapshotFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            (std::string("lockstep_snapshots_") +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(out());
    if (!SnapshotFolder(out(), false).why_none().empty()) GTEST_SKIP() << "no /dev/shm";
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path out() const { return root_ / "run"; }
  fs::path link() const { return out() / SnapshotFolder::kLink; }

  /// A checkpoint without tensors.
  static void save(const fs::path& folder, std::int64_t step) {
    io::CheckpointContent content;
    content.state.step = step;
    io::write_checkpoint(folder, content);
  }
  /// What a supervisor leaves that ends without having saved its snapshot of `step`.
  fs::path leave(std::int64_t step) {
    const SnapshotFolder folder(out(), false);
    left_ = folder.path();
    save(left_, step);
    return left_;
  }
  ~SnapshotFolderTest() override {
    if (!left_.empty()) fs::remove_all(left_);
  }

  fs::path root_, left_;
};

TEST_F(SnapshotFolderTest, WithoutASnapshotNothingStays) {
  fs::path path;
  {
    const SnapshotFolder folder(out(), false);
    path = folder.path();
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(link()));
}

TEST_F(SnapshotFolderTest, WhatIsLeftIsKnownByItsRun) {
  const auto find = [](const fs::path& folder) -> std::optional<LeftSnapshots> {
    for (const LeftSnapshots& left : left_snapshots())
      if (left.folder == folder) return left;
    return std::nullopt;
  };
  {
    const SnapshotFolder used(out(), false);
    EXPECT_FALSE(find(used.path())) << "a supervisor has it";
  }
  const fs::path folder = leave(7);
  auto left = find(folder);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->run, LeftSnapshots::Run::ended);
  EXPECT_EQ(left->out, out());
  EXPECT_EQ(left->step, 7);
  EXPECT_GT(left->bytes, 0u);
  fs::rename(root_, root_.string() + "_away");  // as where a disk is not mounted
  left = find(folder);
  fs::rename(root_.string() + "_away", root_);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->run, LeftSnapshots::Run::unknown);
  fs::remove_all(out());
  left = find(folder);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->run, LeftSnapshots::Run::gone);
  {
    fs::create_directories(out());
    SnapshotFolder other(out(), false);  // which removes it as well
    EXPECT_FALSE(fs::exists(folder));
    EXPECT_FALSE(remove_left({.folder = other.path()})) << "a supervisor has it";
    EXPECT_TRUE(fs::exists(other.path()));
    other.remove();
  }
}

TEST_F(SnapshotFolderTest, WhatAnEarlierSupervisorLeftIsTakenOver) {
  const fs::path left = leave(7);
  fs::create_directories(left / ".step_00000009.tmp");  // its ranks were killed while they wrote
  {
    SnapshotFolder folder(out(), true);
    EXPECT_TRUE(folder.is_taken_over());
    EXPECT_EQ(folder.path(), left);
    EXPECT_EQ(folder.newest_step(), 7);
    EXPECT_EQ(SnapshotFolder::newest_step_of(out()), 7);
    EXPECT_FALSE(fs::exists(left / ".step_00000009.tmp"));
    folder.remove();
  }
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(SnapshotFolder::newest_step_of(out()), -1);
}

TEST_F(SnapshotFolderTest, TheRunMayBeNamedOtherwiseOrMoved) {
  const fs::path left = leave(7);
  {
    const SnapshotFolder folder(out() / "", true);
    EXPECT_EQ(folder.path(), left);
  }
  fs::rename(out(), root_ / "moved");
  {
    const SnapshotFolder folder(root_ / "moved", true);
    EXPECT_EQ(folder.path(), left);
  }
  fs::create_directory_symlink(root_ / "moved", root_ / "alias");
  EXPECT_EQ(SnapshotFolder(root_ / "alias", true).path(), left);
}

TEST_F(SnapshotFolderTest, SnapshotsOfARunThatIsGoneAreRemoved) {
  const fs::path left = leave(7);
  fs::rename(out(), root_ / "away");
  fs::create_directories(root_ / "other");
  { const SnapshotFolder other(root_ / "other", false); }
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(SnapshotFolderTest, ADiskThatIsNotMountedIsNoRunThatIsGone) {
  const fs::path left = leave(7);
  const fs::path away = root_.string() + "_away";
  fs::rename(root_, away);
  const fs::path other = fs::path(testing::TempDir()) / "lockstep_snapshots_other";
  fs::create_directories(other);
  { const SnapshotFolder folder(other, false); }
  EXPECT_TRUE(fs::exists(left));
  fs::remove_all(other);
  fs::rename(away, root_);
}

TEST_F(SnapshotFolderTest, ARunThatBeginsAnewTakesNothingOver) {
  const fs::path left = leave(7);
  const SnapshotFolder folder(out(), false);
  EXPECT_FALSE(folder.is_taken_over());
  EXPECT_EQ(folder.newest_step(), -1);
  EXPECT_FALSE(fs::exists(left)) << "no run names it any more";
}

TEST_F(SnapshotFolderTest, AnotherRunsSnapshotsAreLeftAlone) {
  const fs::path left = leave(7);
  fs::create_directories(root_ / "other");
  std::ofstream(root_ / "other" / SnapshotFolder::kLink) << left.string() << "\nanother word\n";
  const SnapshotFolder folder(root_ / "other", true);
  EXPECT_FALSE(folder.is_taken_over());
  EXPECT_NE(folder.path(), left);
  EXPECT_TRUE(fs::exists(left));
}

TEST_F(SnapshotFolderTest, AFolderThatOthersCanWriteToIsNotTakenOver) {
  const fs::path left = leave(7);
  ASSERT_EQ(chmod(left.c_str(), 0777), 0);
  EXPECT_FALSE(SnapshotFolder(out(), true).is_taken_over());
  // Nor what a link says that leads elsewhere.
  fs::create_directories(out());
  std::ofstream(link()) << (root_ / "run").string() << "\nword\n";
  EXPECT_FALSE(SnapshotFolder(out(), true).is_taken_over());
}

/// With several hosts the folder of this one is made by a rank where the supervisor is elsewhere,
/// and the next supervisor may be here.
TEST_F(SnapshotFolderTest, WhatRanksMadeIsTakenOver) {
  fs::path path;
  {
    SnapshotFolder elsewhere(out(), false, true);
    path = elsewhere.path();
    fs::remove_all(path);  // which is not this host
    const RankSnapshotFolder rank(path, out());
    EXPECT_TRUE(fs::exists(path));
    save(path, 3);
  }
  left_ = path;
  for (const bool ranks_are_ending : {true, false}) {
    std::optional<RankSnapshotFolder> rank;
    if (ranks_are_ending) rank.emplace(path, out());
    const SnapshotFolder next(out(), true, true);
    EXPECT_TRUE(next.is_taken_over());
    EXPECT_EQ(next.path(), path);
    EXPECT_EQ(next.newest_step(), 3);
  }
  {
    RankSnapshotFolder rank(path, out());
    rank.set_saved();
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(SnapshotFolderTest, ACopyOfARunsFolderHasNoPartInItsSnapshots) {
  const SnapshotFolder used(out(), false, true);
  fs::copy(out(), root_ / "copy", fs::copy_options::recursive);
  SnapshotFolder copy(root_ / "copy", true, true);
  EXPECT_FALSE(copy.is_taken_over());
  EXPECT_NE(copy.path(), used.path());
  copy.remove();
  left_ = used.path();
}

/// Where this host is the supervisor's but has lost its memory, others may have theirs.
TEST_F(SnapshotFolderTest, OfSeveralHostsTheNameStays) {
  {
    const SnapshotFolder folder(out(), false, true);
    left_ = folder.path();
  }
  EXPECT_FALSE(fs::exists(left_)) << "no rank has trained";
  std::ofstream(out() / "history.jsonl") << "{}\n";
  {
    const SnapshotFolder folder(out(), false, true);
    left_ = folder.path();
  }
  fs::remove_all(left_);
  SnapshotFolder next(out(), true, true);
  EXPECT_EQ(next.path(), left_);
  EXPECT_TRUE(fs::exists(left_));
  next.remove();
  EXPECT_FALSE(fs::exists(left_));
}

TEST_F(SnapshotFolderTest, TwoSupervisorsNeverHaveOne) {
  const SnapshotFolder first(out(), false);
  const SnapshotFolder second(out(), true);
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(fs::exists(first.path()));
}

TEST_F(SnapshotFolderTest, TheNewestWholeOneIsSavedToTheDisk) {
  const SnapshotFolder folder(out(), false);
  const fs::path checkpoints = out() / "checkpoints";
  EXPECT_EQ(folder.save_to(checkpoints), std::nullopt);
  save(checkpoints, 3);
  save(folder.path(), 3);
  EXPECT_EQ(folder.save_to(checkpoints), std::nullopt) << "the disk has it";
  save(folder.path(), 5);
  save(folder.path(), 8);
  std::ofstream(fs::path(folder.path()) / "step_00000008/state.json") << "{}";
  EXPECT_EQ(folder.save_to(checkpoints), 5);
  EXPECT_EQ(io::verify_checkpoint(checkpoints / "step_00000005").step, 5);
  fs::remove_all(fs::path(folder.path()) / "step_00000008");
  EXPECT_EQ(folder.save_to(checkpoints), std::nullopt) << "nothing is newer";
  save(checkpoints, 9);
  std::ofstream(checkpoints / "step_00000009/state.json") << "{}";
  save(folder.path(), 7);
  EXPECT_EQ(folder.save_to(checkpoints), 7) << "what is newer by its name is damaged";
  left_ = folder.path();
}

}  // namespace
}  // namespace lockstep
