// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/host_watch.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Hosts = std::vector<Host>;

class HostWatchTest : public testing::Test {
 protected:
  HostWatchTest() {
    fs::create_directories(folder_);
    write("hosts", "a:2\nb:2\n");
    // Answers for the hosts that have a file of their name.
    write("ssh",
          "#!/bin/sh\nfor host; do last=$before before=$host; done\n[ -e " +
              (folder_ / "up_").string() + "\"$last\" ]\n");
    fs::permissions(folder_ / "ssh", fs::perms::owner_all);
  }
  ~HostWatchTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  HostWatch watch() const {
    return HostWatch((folder_ / "hosts").string(), {.path = (folder_ / "ssh").string()}, 20ms);
  }
  /// What it finds within `patience`.
  static std::optional<Hosts> find(HostWatch& watch,
                                   const Hosts& used,
                                   std::chrono::seconds patience) {
    for (const auto end = std::chrono::steady_clock::now() + patience;
         std::chrono::steady_clock::now() < end;) {
      if (const auto found = watch.look(used)) return found;
      std::this_thread::sleep_for(1ms);
    }
    return std::nullopt;
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("lockstep_host_watch_" + std::to_string(getpid()));
};

TEST_F(HostWatchTest, AHostIsTakenOnceItAnswers) {
  HostWatch hosts = watch();
  const Hosts used{{"a", 2}};
  EXPECT_EQ(find(hosts, used, 30s), used) << "b does not answer, and a is not asked";
  write("up_b", "");
  const Hosts both{{"a", 2}, {"b", 2}};
  for (int look = 0; look < 3; ++look)
    if (find(hosts, used, 30s) == both) return;
  FAIL();
}

TEST_F(HostWatchTest, TheFileIsReadAgain) {
  HostWatch hosts = watch();
  const Hosts used{{"a", 2}, {"b", 2}};
  EXPECT_EQ(find(hosts, used, 30s), used);
  write("hosts", "b slots=1  # a is to be repaired\n");
  const Hosts left{{"b", 1}};
  EXPECT_EQ(find(hosts, used, 30s), left);
  for (const char* broken : {"", "b:none\n"}) {
    write("hosts", broken);
    find(hosts, used, 1s);  // a look that began before
    EXPECT_EQ(find(hosts, used, 1s), std::nullopt) << broken;
  }
  fs::remove(folder_ / "hosts");
  EXPECT_EQ(find(hosts, used, 1s), std::nullopt);
  write("hosts", "a:2\n");
  EXPECT_EQ(find(hosts, used, 30s), (Hosts{{"a", 2}}));
}

TEST_F(HostWatchTest, OneLookIsNoChange) {
  HostWatch hosts = watch();
  const Hosts used{{"a", 2}, {"b", 2}};
  EXPECT_EQ(find(hosts, used, 30s), used);
  for (int change = 0; change < 20; ++change) {  // another size at every look
    write("hosts", "a:" + std::to_string(change + 3) + "\nb:2\n");
    const auto found = hosts.look(used);
    EXPECT_TRUE(!found || *found == used);
    std::this_thread::sleep_for(25ms);
  }
}

}  // namespace
}  // namespace lockstep
