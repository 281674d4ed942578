// SPDX-License-Identifier: Apache-2.0
#include "core/host/host_memory.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A machine of files. Without limits, 1000 MiB of which 600 are available.
class HostMemoryFiles : public ::testing::Test {
 protected:
  HostMemoryFiles()
      : root_(fs::temp_directory_path() / fmt::format("lockstep-host-memory-{}", getpid())) {
    fs::create_directories(root_);
    write("/proc/meminfo",
          fmt::format("MemTotal:     {} kB\nMemFree:   1 kB\nMemAvailable:  {} kB\nHugePages: 0\n",
                      1000 << 10,
                      600 << 10));
    write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max address space         unlimited            unlimited            bytes     \n");
    write("/proc/self/status",
          "Name:\tx\nVmPeak:\t 9999999 kB\nVmSize:\t   20480 kB\nVmData:\t 1024 kB\n");
  }
  ~HostMemoryFiles() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = root_.string() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void write_version_2(const std::string& group,
                       const std::string& limit,
                       std::uint64_t used,
                       std::uint64_t cached) const {
    const std::string folder = "/sys/fs/cgroup" + group;
    write(folder + "/memory.max", limit + "\n");
    write(folder + "/memory.current", fmt::format("{}\n", used));
    write(folder + "/memory.stat",
          fmt::format("anon 5\nfile 999999999\ninactive_file {}\nactive_file {}\nslab 7\n",
                      cached / 2,
                      cached - cached / 2));
  }
  void write_version_1(const std::string& group,
                       std::uint64_t limit,
                       std::uint64_t used,
                       std::uint64_t cached) const {
    const std::string folder = "/sys/fs/cgroup/memory" + group;
    write(folder + "/memory.limit_in_bytes", fmt::format("{}\n", limit));
    write(folder + "/memory.usage_in_bytes", fmt::format("{}\n", used));
    write(folder + "/memory.stat",
          fmt::format("inactive_file 3\ntotal_inactive_file {}\ntotal_active_file 0\n", cached));
  }
  HostMemory read() const { return read_host_memory(root_.string()); }
  std::uint64_t inode_of(const std::string& folder) const {
    struct stat facts {};
    EXPECT_EQ(stat((root_.string() + folder).c_str(), &facts), 0) << folder;
    return facts.st_ino;
  }

  static constexpr std::uint64_t kMiB = 1 << 20;

 private:
  fs::path root_;
};

TEST_F(HostMemoryFiles, WithoutLimitsIsWhatTheKernelHasAvailable) {
  const HostMemory memory = read();
  EXPECT_EQ(memory.free, 600 * kMiB);
  EXPECT_EQ(memory.total, 1000 * kMiB);
  EXPECT_EQ(memory.group, "");
  EXPECT_EQ(memory.own, std::nullopt);
  EXPECT_EQ(memory.left(), 600 * kMiB);
}

TEST_F(HostMemoryFiles, MaxIsNoLimit) {
  write("/proc/self/cgroup", "0::/job\n");
  write_version_2("/job", "max", 500 * kMiB, 0);
  EXPECT_EQ(read().free, 600 * kMiB);
  EXPECT_EQ(read().group, "");
}

TEST_F(HostMemoryFiles, AGroupOfVersion2LimitsAndItsFilePagesAreFree) {
  write("/proc/self/cgroup", "0::/job/step\n");
  write_version_2("/job/step", fmt::format("{}", 400 * kMiB), 350 * kMiB, 51 * kMiB);
  const HostMemory memory = read();
  EXPECT_EQ(memory.free, 101 * kMiB);
  EXPECT_EQ(memory.total, 400 * kMiB);
  EXPECT_EQ(memory.group, "/job/step");
}

TEST_F(HostMemoryFiles, TheTightestOfTheGroupsAroundCounts) {
  write("/proc/self/cgroup", "0::/job/step\n");
  write_version_2("/job/step", fmt::format("{}", 400 * kMiB), 100 * kMiB, 0);
  write_version_2("/job", fmt::format("{}", 450 * kMiB), 440 * kMiB, 20 * kMiB);
  const HostMemory memory = read();
  EXPECT_EQ(memory.free, 30 * kMiB);
  EXPECT_EQ(memory.total, 400 * kMiB);
  EXPECT_EQ(memory.group, "/job/step");
}

TEST_F(HostMemoryFiles, AGroupThatHoldsMoreThanItsLimitHasNothingLeft) {
  write("/proc/self/cgroup", "0::/job\n");
  write_version_2("/job", fmt::format("{}", 400 * kMiB), 500 * kMiB, 10 * kMiB);
  EXPECT_EQ(read().free, 0u);
}

TEST_F(HostMemoryFiles, Version1) {
  write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n");
  constexpr std::uint64_t kNone = 9223372036854771712u;
  write_version_1("", kNone, 900 * kMiB, 0);
  write_version_1("/docker/abc", 300 * kMiB, 250 * kMiB, 20 * kMiB);
  EXPECT_EQ(read().free, 70 * kMiB);
  EXPECT_EQ(read().group, "/docker/abc");
  write_version_1("/docker/abc", kNone, 250 * kMiB, 20 * kMiB);
  EXPECT_EQ(read().free, 600 * kMiB);
}

/// Without a name space of its own a container sees the host's path, and its group at the mount.
TEST_F(HostMemoryFiles, AContainerThatSeesTheHostsPath) {
  write("/proc/self/cgroup", "4:memory:/docker/abc\n");
  write_version_1("", 300 * kMiB, 100 * kMiB, 0);
  EXPECT_EQ(read().free, 200 * kMiB);
  EXPECT_EQ(read().total, 300 * kMiB);
  EXPECT_EQ(read().group, "/");
  // By which other containers' groups of that path are told apart.
  EXPECT_EQ(read().group_id, inode_of("/sys/fs/cgroup/memory"));
}

TEST_F(HostMemoryFiles, ALimitOfAddressSpaceIsThisProcesssOwn) {
  write("/proc/self/limits",
        fmt::format("Max cpu time              unlimited            unlimited            seconds\n"
                    "Max address space         {}            unlimited            bytes\n",
                    500 * kMiB));
  const HostMemory memory = read();
  EXPECT_EQ(memory.free, 600 * kMiB);
  EXPECT_EQ(memory.own, 480 * kMiB);
  EXPECT_EQ(memory.left(), memory.own);
}

TEST_F(HostMemoryFiles, OfTwoLimitsOfItsOwnTheLesserCounts) {
  write("/proc/self/limits",
        fmt::format("Max data size             {}            unlimited            bytes\n"
                    "Max address space         {}            unlimited            bytes\n",
                    101 * kMiB,
                    500 * kMiB));
  EXPECT_EQ(read().own, 100 * kMiB);
}

TEST_F(HostMemoryFiles, FilesThatAreNoneSayNothing) {
  write("/proc/meminfo", "nonsense\n");
  write("/proc/self/cgroup", "::\n:\n0::/a\n");
  write_version_2("/a", "?", 1, 1);
  write("/proc/self/limits", "Max address space\n");
  const HostMemory memory = read();
  EXPECT_EQ(memory.free, std::nullopt);
  EXPECT_EQ(memory.total, 0u);
  EXPECT_EQ(memory.left(), std::nullopt);
}

TEST(HostMemory, OfThisMachineIsKnown) {
  const HostMemory memory = read_host_memory();
  ASSERT_TRUE(memory.free.has_value());
  EXPECT_GT(*memory.free, 0u);
  EXPECT_LE(*memory.free, memory.total);
}

}  // namespace
}  // namespace lockstep
