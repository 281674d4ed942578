// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/gpu_binding.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/host/cores.h"
#include "core/host/cpu_list.h"
#include "launcher/doctor/environment.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<int> kHost{0, 1, 2, 3, 4, 5, 6, 7}, kNode{4, 5, 6, 7};

TEST(GpuBinding, ARankThatNobodyRestrictedGoesToTheNodeOfItsGpu) {
  for (const bool own_launch : {false, true})
    EXPECT_EQ(threads_near_gpu(kHost, 8, kHost, kNode, own_launch), kNode);
}

TEST(GpuBinding, ARankThatOurLauncherBoundToACoreGetsTheNode) {
  EXPECT_EQ(threads_near_gpu({0}, 1, kHost, kNode, true), kNode);
  // Also where the kernel does not say what is near: the machine has one node.
  EXPECT_EQ(threads_near_gpu({0, 4}, 1, kHost, {}, true), kHost);
}

TEST(GpuBinding, AMaskThatSomebodyChoseStays) {
  EXPECT_THAT(threads_near_gpu({0}, 1, kHost, kNode, false), IsEmpty());
  EXPECT_THAT(threads_near_gpu({0, 1, 4}, 3, kHost, kNode, true), IsEmpty());
  EXPECT_THAT(threads_near_gpu({0, 1, 4}, 3, kHost, kNode, false), IsEmpty());
  // There is nothing to do.
  EXPECT_THAT(threads_near_gpu(kHost, 8, kHost, {}, true), IsEmpty());
  EXPECT_THAT(threads_near_gpu(kHost, 8, kHost, kHost, false), IsEmpty());
}

/// What `action` returns in a process of its own, whose mask may change.
template <typename Action>
std::string in_child(Action action) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = action();
    const bool written = write(ends[1], text.data(), text.size()) == ssize_t(text.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text(4096, '\0');
  text.resize(std::size_t(std::max<ssize_t>(0, read(ends[0], text.data(), text.size()))));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

TEST(GpuBinding, TheMaskOfTheProcessIsSet) {
  const std::vector<int> mine = allowed_threads();
  if (mine.size() < 2) GTEST_SKIP() << "one hardware thread is too few";
  const std::string root = ::testing::TempDir() + "gpu_binding";
  const auto put = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + file).parent_path());
    std::ofstream(root + file) << text << '\n';
  };
  put("/sys/devices/system/cpu/online", format_cpu_list(mine));
  put("/sys/bus/pci/devices/0000:1b:00.0/local_cpulist", std::to_string(mine[1]));
  const std::string last = std::to_string(mine[1]);
  EXPECT_EQ(in_child([&] {
              const std::string said = bind_to_gpu("0000:1B:00.0", false, root);
              return said + " " + format_cpu_list(allowed_threads());
            }),
            last + " " + last);
  // Bound to a core, by a launcher of our own it is widened again; by another it stays.
  put("/sys/bus/pci/devices/0000:1b:00.0/local_cpulist", format_cpu_list(mine));
  const auto bound_first = [&](bool own_launch) {
    return in_child([&] {
      put("/sys/bus/pci/devices/0000:2b:00.0/local_cpulist", std::to_string(mine[0]));
      bind_to_gpu("0000:2b:00.0", false, root);
      bind_to_gpu("0000:1b:00.0", own_launch, root);
      return format_cpu_list(allowed_threads());
    });
  };
  EXPECT_EQ(bound_first(true), format_cpu_list(mine));
  EXPECT_EQ(bound_first(false), std::to_string(mine[0]));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace lockstep
