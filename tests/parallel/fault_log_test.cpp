// SPDX-License-Identifier: Apache-2.0
// Records of faults where a log hangs, or is closed.
#include "parallel/session/fault_log.h"

#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "tests/io/scratch_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::string content_of(const std::string& file) {
  std::ostringstream all;
  all << std::ifstream(file).rdbuf();
  return all.str();
}

class FaultLogTest : public ::testing::Test {
 protected:
  FaultLogTest() {
    record_.rank = 3;
    record_.cause = "rank 3 is frozen";
    log_.open_transcript(transcript_, RunLog::Open::empty);
  }
  io::ScratchFolder folder_;
  const std::string transcript_ = folder_.file("run.log"), host_ = folder_.file("host.log");
  FaultRecord record_;
  FaultLog log_;
};

TEST_F(FaultLogTest, ARecordAfterTheCloseIsInBoth) {
  log_.open_host(host_, 2);
  EXPECT_EQ(log_.close(), "");
  for (int i = 0; i < 2; ++i) log_.write(record_, false);
  EXPECT_THAT(content_of(transcript_), HasSubstr("rank 3 is frozen"));
  EXPECT_THAT(content_of(host_), HasSubstr("{\"rank\":2,"));
  EXPECT_THAT(content_of(host_), HasSubstr("rank 3 is frozen"));
}

// The host's file is a pipe that is not read until the record has been written.
TEST_F(FaultLogTest, AHostLogThatHangsKeepsNoRecordFromTheTranscript) {
  ASSERT_EQ(mkfifo(host_.c_str(), 0600), 0);
  log_.open_host(host_, 2);
  const int pipe = open(host_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  const int capacity = fcntl(pipe, F_GETPIPE_SZ);
  ASSERT_GT(capacity, 0);
  std::atomic<bool> done{false};
  std::thread hanging([&] {
    log_.write_host_line("{" + std::string(std::size_t(2 * capacity), 'x') + "}");
    done = true;
  });
  char byte = 0;
  while (read(pipe, &byte, 1) != 1) std::this_thread::yield();  // it is at work
  log_.write(record_, false);
  EXPECT_FALSE(done) << "nothing hangs";
  EXPECT_THAT(content_of(transcript_), HasSubstr("rank 3 is frozen"));
  char bytes[4096];
  while (!done) {
    if (read(pipe, bytes, sizeof bytes) <= 0) std::this_thread::yield();
  }
  hanging.join();
  close(pipe);
}

}  // namespace
}  // namespace lockstep
