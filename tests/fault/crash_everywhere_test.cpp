// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <set>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/io/checkpoint/checkpoint.h"
#include "tests/fault/tracer.h"
#include "tests/support/small_checkpoint.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Interference::Kind;

constexpr int kLastStep = 4, kBest = 1;  // as save_checkpoints.cpp has them
constexpr std::size_t kKeep = 2;

using Decide = std::function<Interference(const SystemCall&)>;

bool exchanges(const SystemCall& call) {
  return call.number == SYS_renameat2 && (call.arguments[4] & RENAME_EXCHANGE) != 0;
}

Interference refuse_exchange(const SystemCall& call) {
  return exchanges(call) ? Interference{Kind::fail, EINVAL} : Interference{};
}

bool may_fail(const SystemCall& call) {
  switch (call.number) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_fallocate:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_rename:
    case SYS_renameat2:
    case SYS_close:
    case SYS_openat:
    case SYS_mkdir:
      return true;
    default:
      return false;
  }
}

/// Of a rank's part, which rank 0 reads.
bool is_part(const std::string& path) {
  return fs::path(path).filename().string().starts_with("part_") && path.ends_with(".json");
}

bool is_temporary_part(const std::string& path) {
  return fs::path(path).filename().string().starts_with("part_") && path.ends_with(".tmp");
}

/// Whether the save is no longer the promised one where this call fails. Folders are also opened
/// and closed to list or remove what is in them, where a second way may lead to the goal.
bool must_be_reported(const SystemCall& call) {
  if (call.number == SYS_openat) return (call.arguments[2] & O_CREAT) != 0;
  if (call.number == SYS_close && is_part(call.path)) return false;
  if (call.number == SYS_close) return !fs::is_directory(call.path);
  return true;
}

/// Saves again and again, each time disturbed at another system call. Killing loses nothing that
/// the kernel has taken, so that memory serves as disk.
class CrashEverywhere : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_tracing(); !reason.empty())
      GTEST_SKIP() << "programs cannot be traced here: " << reason;
    const fs::path memory = "/dev/shm";
    const bool usable = ::access(memory.c_str(), W_OK | X_OK) == 0;
    std::string name =
        ((usable ? memory : fs::temp_directory_path()) / "lockstep-fault-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    folder_ = root_ / "run" / "checkpoints";
  }
  void TearDown() override {
    if (!root_.empty()) fs::remove_all(root_);
  }

  /// Whether three ranks save, which are threads, so that calls come in another order each time.
  static bool together() { return std::string(GetParam()) == "together"; }

  bool concerns_folder(const SystemCall& call) const {
    return call.path.starts_with(root_.string());
  }

  Ended run(const Decide& decide) const {
    fs::remove_all(root_ / "run");
    return run_traced({LOCKSTEP_SAVE_CHECKPOINTS, folder_.string(), GetParam()}, decide);
  }

  struct Saved {
    int step = 0, attempt = 0;
  };
  /// What the program said that it had saved, oldest first; of each step the last attempt.
  static std::vector<Saved> saves(const Ended& ended) {
    std::vector<Saved> result;
    std::istringstream lines(ended.out);
    std::string word;
    for (Saved saved; lines >> word >> saved.step >> saved.attempt;) {
      if (!result.empty() && result.back().step == saved.step) result.pop_back();
      result.push_back(saved);
    }
    return result;
  }

  /// What a run finds that is started afterwards: the newest checkpoint that was said to be saved
  /// or, where it was killed, the one after; the best and the one before. All of them are whole,
  /// and nothing else is left. Returns the newest step; 0: none.
  int expect_sound(const Ended& ended) const {
    const std::vector<Saved> saved = saves(ended);
    const Saved last = saved.empty() ? Saved{} : saved.back();
    io::remove_temporaries(folder_);
    std::vector<std::string> skipped_checkpoints;
    const auto found = io::newest_checkpoint(folder_, skipped_checkpoints);
    EXPECT_THAT(skipped_checkpoints, IsEmpty());
    const int newest = found ? int(found->state.step) : 0;
    const int attempt = found ? std::stoi(content_of(found->path / "attempt.txt")) : 0;
    EXPECT_GE(attempt, last.attempt);
    EXPECT_LE(attempt, last.attempt + (ended.killed ? 1 : 0)) << "a failed save has left its own";
    std::set<int> steps;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_, none)) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name.starts_with("step_")) << name << " is left over";
      const int step = std::stoi(name.substr(5));
      steps.insert(step);
      EXPECT_EQ(SmallCheckpoint(step).difference(entry.path()), "");
    }
    for (std::size_t i = 0; i < saved.size(); ++i) {
      const int step = saved[i].step;
      const std::size_t age = saved.size() - 1 - i + (newest > last.step ? 1 : 0);
      EXPECT_TRUE(steps.contains(step) || (step != kBest && age >= kKeep))
          << "step " << step << " is gone";
    }
    return newest;
  }

  /// Kills at every system call from the first on that concerns the folder (of several ranks, which
  /// also wait for each other, at every one that concerns it); `otherwise` says what becomes of the
  /// others. Returns their number.
  int kill_everywhere(const Decide& otherwise) const {
    for (int point = 1;; ++point) {
      int seen = 0;
      const Ended ended = run([&](const SystemCall& call) -> Interference {
        const bool counts = (seen > 0 && !together()) || concerns_folder(call);
        if (counts && ++seen == point) return {Kind::kill};
        return otherwise(call);
      });
      SCOPED_TRACE(fmt::format("killed at system call {} after '{}'", point, ended.out));
      const int newest = expect_sound(ended);
      EXPECT_EQ(ended.signal, 0);
      if (HasFailure()) return point;
      if (!ended.killed) {
        EXPECT_EQ(ended.exit_code, 0) << ended.err;
        EXPECT_EQ(newest, kLastStep);
        return point - 1;
      }
    }
  }

  /// Fails every call that concerns the folder in turn. Returns their number.
  int fail_everywhere(int error, const Decide& otherwise) const {
    for (int point = 1;; ++point) {
      int seen = 0;
      bool must_report = false;
      std::string what;
      const Ended ended = run([&](const SystemCall& call) -> Interference {
        if (!concerns_folder(call) || !may_fail(call) || ++seen != point) return otherwise(call);
        must_report = must_be_reported(call);
        what = fmt::format("call {} on {} fails with {}", call.number, call.path, error);
        return {Kind::fail, error};
      });
      SCOPED_TRACE(fmt::format("{}: printed '{}' '{}'", what, ended.out, ended.err));
      EXPECT_EQ(ended.signal, 0);
      const int newest = expect_sound(ended);
      EXPECT_TRUE(ended.exit_code == 3 || (ended.exit_code == 0 && newest == kLastStep));
      if (HasFailure()) return point;
      if (seen < point) {
        EXPECT_EQ(ended.exit_code, 0);
        return point - 1;
      }
      const bool reported = ended.err.find(std::strerror(error)) != std::string::npos &&
                            ended.err.find(root_.string()) != std::string::npos;
      EXPECT_TRUE(reported || (ended.exit_code == 0 && !must_report));
    }
  }

  fs::path root_, folder_;
};

TEST_P(CrashEverywhere, KilledAtEverySystemCall) {
  const int points = kill_everywhere([](const SystemCall&) { return Interference{}; });
  EXPECT_GT(points, 200);
  std::printf("killed at each of %d system calls\n", points);
}

TEST_P(CrashEverywhere, KilledWhereNamesCannotBeExchanged) {
  const int points = kill_everywhere(refuse_exchange);
  EXPECT_GT(points, 200);
  std::printf("killed at each of %d system calls\n", points);
}

TEST_P(CrashEverywhere, EveryCallFails) {
  const auto undisturbed = [](const SystemCall&) { return Interference{}; };
  const int failures = fail_everywhere(ENOSPC, undisturbed) + fail_everywhere(EIO, undisturbed);
  EXPECT_GT(failures, 300);
  std::printf("%d calls failed, each in turn\n", failures);
}

TEST_P(CrashEverywhere, EveryCallFailsWhereNamesCannotBeExchanged) {
  const int failures = fail_everywhere(EIO, refuse_exchange);
  EXPECT_GT(failures, 150);
  std::printf("%d calls failed, each in turn\n", failures);
}

TEST_P(CrashEverywhere, InterruptedAndShortWritesAreContinued) {
  const Interference disturbances[] = {{Kind::fail, EINTR}, {Kind::shorten, 0}};
  int count = 0;
  for (const Interference& disturbance : disturbances)
    for (int point = 1;; ++point) {
      int seen = 0;
      const Ended ended = run([&](const SystemCall& call) -> Interference {
        const bool chosen = call.number == SYS_write || call.number == SYS_pwrite64 ||
                            (disturbance.kind == Kind::fail && call.number == SYS_fsync);
        if (!concerns_folder(call) || !chosen || ++seen != point) return {};
        return disturbance;
      });
      EXPECT_EQ(ended.exit_code, 0) << ended.err;
      EXPECT_EQ(expect_sound(ended), kLastStep);
      if (seen < point || HasFailure()) break;
      ++count;
    }
  EXPECT_GT(count, 100);
  std::printf("%d calls interrupted or cut short\n", count);
}

/// What a power cut would find out, which killing cannot: each file is synced after its last
/// write, its folder after that and before the rename, and the parent before anything is removed.
TEST_P(CrashEverywhere, SyncedInOrder) {
  std::set<std::string> unsynced;  // files, and folders whose names have changed
  int renames = 0;
  const Ended ended = run([&](const SystemCall& call) -> Interference {
    if (!concerns_folder(call)) return {};
    const std::string parent = fs::path(call.path).parent_path().string();
    switch (call.number) {
      case SYS_openat:
        if ((call.arguments[2] & O_CREAT) != 0) unsynced.insert({call.path, parent});
        break;
      case SYS_write:
      case SYS_pwrite64:
      case SYS_fallocate:
        unsynced.insert(call.path);
        break;
      case SYS_fsync:
        unsynced.erase(call.path);
        break;
      case SYS_mkdir:
        if (parent != folder_.string()) unsynced.insert(parent);
        break;
      case SYS_rename:
      case SYS_renameat2:
        if (is_temporary_part(call.path)) {  // by another rank, while others write
          EXPECT_FALSE(unsynced.contains(call.path)) << call.path;
          break;
        }
        EXPECT_THAT(unsynced, IsEmpty()) << "before the rename of " << call.path;
        unsynced.insert(parent);
        ++renames;
        break;
      case SYS_unlinkat:
      case SYS_unlink:
      case SYS_rmdir:
        if (is_part(call.path)) break;
        EXPECT_THAT(unsynced, IsEmpty()) << "before the removal of " << call.path;
        break;
      default:
        break;
    }
    return {};
  });
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(unsynced, IsEmpty());
  EXPECT_GE(renames, 6);  // five saves and a removal
}

INSTANTIATE_TEST_SUITE_P(Saving,
                         CrashEverywhere,
                         ::testing::Values("direct", "writer", "together"),
                         [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace lockstep::testing
