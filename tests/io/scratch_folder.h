// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <unistd.h>

namespace lockstep::io {

/// A folder of one test, gone when it ends.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  /// The path of a new file.
  std::string write(const std::string& name, std::string_view bytes) const {
    std::filesystem::remove(path_ / name);  // ext4 waits for the disk where a file is emptied
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("lockstep_") + std::to_string(::getpid()) + "_" +
       ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() + "_" +
       ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

}  // namespace lockstep::io
