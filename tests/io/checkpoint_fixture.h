// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "core/io/checkpoint/checkpoint.h"
#include "lockstep/error.h"
#include "tests/support/small_checkpoint.h"

namespace lockstep::io {

/// A folder for checkpoints, removed at the end.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-io-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    folder_ = root_ / "run" / "checkpoints";
  }
  ~CheckpointTest() override { std::filesystem::remove_all(root_); }

  std::filesystem::path save(std::int64_t step) const {
    return write_checkpoint(folder_, lockstep::testing::SmallCheckpoint(step).content());
  }

  /// What verify_checkpoint() complains about; empty where it does not.
  static std::string complaint(const std::filesystem::path& checkpoint) {
    try {
      verify_checkpoint(checkpoint);
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  }

  /// All names in the folder of checkpoints, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      result.push_back(entry.path().filename().string());
    std::ranges::sort(result);
    return result;
  }

  std::filesystem::path root_, folder_;
};

}  // namespace lockstep::io
