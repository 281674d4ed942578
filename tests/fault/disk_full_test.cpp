// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/checkpoint/checkpoint_writer.h"
#include "tests/support/small_checkpoint.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kNotPermitted = 77;

/// A disk of one megabyte in a mount namespace that ends with this process; 0 or errno.
int mount_small_disk(const fs::path& folder) {
  if (::unshare(CLONE_NEWNS) != 0) return errno;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return errno;
  if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") != 0) return errno;
  return 0;
}

/// Checkpoints of 0.4 MB: the third does not fit, until the first has gone.
void fill_disk(const fs::path& folder) {
  constexpr std::int64_t kScale = 8000;
  io::write_checkpoint(folder, SmallCheckpoint(1, kScale).content());
  io::write_checkpoint(folder, SmallCheckpoint(2, kScale).content());
  io::CheckpointWriter writer(folder, 1);
  const SmallCheckpoint third(3, kScale);
  const auto save_third = [&] {
    writer.start(third.content());
    writer.wait();
    return writer.take_results().at(0);
  };
  const io::CheckpointResult full = save_third();
  EXPECT_THAT(full.error,
              AllOf(HasSubstr(folder.string()),
                    HasSubstr(".safetensors: cannot write"),
                    HasSubstr("No space left on device")));
  EXPECT_THAT(full.hint, HasSubstr("free space"));
  std::vector<std::string> skipped_checkpoints;
  const auto newest = io::newest_checkpoint(folder, skipped_checkpoints);
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->state.step, 2);
  EXPECT_EQ(SmallCheckpoint(2, kScale).difference(newest->path), "");
  EXPECT_THAT(skipped_checkpoints, IsEmpty());
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_TRUE(entry.path().filename().string().starts_with("step_")) << entry.path();

  EXPECT_THAT(io::remove_old_checkpoints(folder, 2, 1, -1), IsEmpty());
  EXPECT_EQ(save_third().error, "");
  EXPECT_EQ(third.difference(folder / io::checkpoint_name(3)), "");
}

TEST(DiskFull, OldCheckpointStaysAndTheErrorSaysWhy) {
  std::string name = (fs::temp_directory_path() / "lockstep-full-XXXXXX").string();
  const fs::path disk = ::mkdtemp(name.data());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (const int code = mount_small_disk(disk); code != 0) {
      std::printf("%s\n", std::strerror(code));
      std::fflush(stdout);
      ::_exit(kNotPermitted);
    }
    fill_disk(disk);
    std::fflush(stdout);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  fs::remove_all(disk);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotPermitted)
    GTEST_SKIP() << "no disk of our own can be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "see the output above";
}

}  // namespace
}  // namespace lockstep::testing
