// SPDX-License-Identifier: Apache-2.0
#include "launcher/advice/out_of_memory.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/cpu/cpu_backend.h"
#include "launcher/advice/memory_consumers.h"
#include "launcher/advice/memory_format.h"
#include "lockstep/data/sources.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/session/error_report.h"
#include "tests/launcher/flag_names.h"
#include "tests/support/metered_backend.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// One rank with as much memory as a test says.
class OneRank final : public RankContext {
 public:
  explicit OneRank(DeviceMemory memory) { backend_.pretended = std::move(memory); }
  Backend& backend() override { return backend_; }
  Communicator& communicator() override { return communicator_; }

 private:
  testing::MeteredBackend backend_{make_cpu_backend()};
  SelfCommunicator communicator_;
};

/// 200 MiB or more in activations.
PlanRequest large_request() {
  return {.model = nn::make_model({.name = "resnet20", .outputs = 10}),
          .loss = [](Builder& nn,
                     Value logits,
                     Value labels) { return nn.softmax_cross_entropy(logits, labels, 0.0f, {}); },
          .data = data::glyphs(256, 16),
          .options = {.global_batch = 256, .micro_batch = 256, .steps = 1}};
}

std::exception_ptr error_of_room(std::uint64_t free) {
  OneRank rank({.free = free, .total = 2 * free, .pool = ""});
  const TrainingMemory memory(rank, large_request(), "resnet20");
  try {
    memory.require_headroom();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

TEST(OutOfMemoryReport, WhatFitsIsLetThrough) {
  EXPECT_EQ(error_of_room(std::uint64_t{64} << 30), nullptr);
}

TEST(OutOfMemoryReport, ADeviceThatDoesNotSayIsLetThrough) {
  OneRank rank({});
  EXPECT_NO_THROW(TrainingMemory(rank, large_request(), "resnet20").require_headroom());
}

TEST(OutOfMemoryReport, NamesTheRankAndProposesWhatFits) {
  const ErrorReport report = describe(error_of_room(150 * kMiB));
  EXPECT_EQ(report.exit_code, 4);
  EXPECT_EQ(report.faulting_rank.rank, 0);
  EXPECT_THAT(report.message,
              AllOf(HasSubstr("resnet20 takes"), HasSubstr("more than the headroom")));
  EXPECT_THAT(report.hint, HasSubstr("keeps the global batch of 256 and needs"));
  EXPECT_THAT(report.details,
              AllOf(HasSubstr("activations"), HasSubstr("free now"), HasSubstr("others there")));
  const std::string block = to_block(to_record(report, 0, {}));
  EXPECT_THAT(block,
              AllOf(HasSubstr("] error: memory: "),
                    HasSubstr("\n  memory of rank 0 as planned\n  parameters "),
                    HasSubstr("\nhint: `--micro-batch ")));
}

/// An allocation that fails although the plan fitted.
TEST(OutOfMemoryReport, AnAllocationThatFailedIsExplained) {
  OneRank rank({.free = std::uint64_t{64} << 30, .total = std::uint64_t{64} << 30, .pool = ""});
  const TrainingMemory memory(rank, large_request(), "resnet20");
  try {
    try {
      throw OutOfMemory("arena: 123 bytes of memory wanted", "the plain hint");
    } catch (const OutOfMemory&) {
      memory.rethrow_explained();
    }
  } catch (const ExplainedOutOfMemory& error) {
    EXPECT_STREQ(error.what(), "arena: 123 bytes of memory wanted");
    EXPECT_THAT(error.hint(),
                AllOf(HasSubstr("--micro-batch 128 --accumulation 2"), HasSubstr("MiB less")));
    EXPECT_THAT(error.details(), HasSubstr("activations"));
    EXPECT_EQ(error.rank, -1) << "each rank speaks for itself";
  }
}

TEST(OutOfMemoryReport, WhereNothingSmallerIsKnownTheErrorKeepsItsHint) {
  OneRank rank({.free = std::uint64_t{64} << 30, .total = std::uint64_t{64} << 30, .pool = ""});
  PlanRequest request = large_request();
  request.options.global_batch = request.options.micro_batch = 1;
  request.options.recompute = Recompute::all;
  const TrainingMemory memory(rank, request, "resnet20");
  try {
    try {
      throw OutOfMemory("arena: 123 bytes of memory wanted", "the plain hint");
    } catch (const OutOfMemory&) {
      memory.rethrow_explained();
    }
  } catch (const ExplainedOutOfMemory& error) {
    EXPECT_EQ(error.hint(), "the plain hint");
    EXPECT_THAT(error.details(), HasSubstr("activations"));
  }
}

/// A model that cannot even be planned: the plain error stays.
TEST(OutOfMemoryReport, WhatCannotBeExplainedStaysAsItIs) {
  OneRank rank({.free = kMiB, .total = kMiB, .pool = ""});
  PlanRequest request = large_request();
  request.model = [](Builder&, Value) -> Value { throw std::bad_alloc(); };
  const TrainingMemory memory(rank, request, "broken");
  try {
    try {
      throw OutOfMemory("arena: 123 bytes", "the plain hint");
    } catch (const OutOfMemory&) {
      memory.rethrow_explained();
    }
    ADD_FAILURE() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(), "arena: 123 bytes");
    EXPECT_EQ(error.hint(), "the plain hint");
    EXPECT_EQ(dynamic_cast<const ExplainedOutOfMemory*>(&error), nullptr);
  }
}

TEST(FixWords, SayWhatStaysAndWhatIsSaved) {
  const MemoryFix smaller{.micro_batch = 24, .accumulation = 4, .needed = 1, .saved = 3328 * kMiB};
  EXPECT_EQ(format_memory_fix(smaller, 384, true),
            "`--micro-batch 24 --accumulation 4` keeps the global batch of 384 and needs 3.25 GiB "
            "less");
  const MemoryFix recompute{
      .recompute = true, .memory_limit = 512 * kMiB, .needed = 1, .saved = kMiB};
  EXPECT_EQ(format_memory_fix(recompute, 8, true),
            "`--recompute auto --memory-limit 512MiB` keeps the global batch of 8 and all bits and "
            "needs 1.00 MiB less");
  const MemoryFix fewer{.micro_batch = 2, .ranks = 3, .needed = 5 * kMiB};
  EXPECT_THAT(format_memory_fix(fewer, 8, true), HasSubstr("`--ranks 3 --micro-batch 2` keeps"));
  EXPECT_THAT(format_memory_fix(fewer, 8, false),
              AllOf(HasSubstr("3 ranks (mpirun -np 3) with `--micro-batch 2` keeps"),
                    Not(HasSubstr("--ranks"))));
}

TEST(MemoryUsers, AreTheLargestOthers) {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::temp_directory_path() / fmt::format("lockstep-memory-users-{}", getpid());
  const auto add = [&](int process, const std::string& name, int parent, int pages) {
    const fs::path folder = root / "proc" / std::to_string(process);
    fs::create_directories(folder);
    std::ofstream(folder / "comm") << name << "\n";
    std::ofstream(folder / "statm") << 2 * pages << " " << pages << " 0 0 0 0 0\n";
    std::ofstream(folder / "stat") << process << " (" << name << ") S " << parent << " 1 1 0\n";
  };
  const int own = getpid();
  add(own, "lockstep", 50, 900);
  add(own + 1, "lockstep", 50, 800);  // a rank of the same job
  add(own + 2, "a (b) c", 1, 700);
  add(own + 3, "java", 1, 1000);
  add(own + 4, "small", 1, 1);
  fs::create_directories(root / "proc/12x");
  const auto names = [&](std::size_t most, bool siblings) {
    std::string text;
    for (const MemoryConsumer& user : largest_processes(most, 2 * 4096, siblings, root))
      text += user.name + ",";
    return text;
  };
  EXPECT_EQ(names(9, false), "java,a (b) c,");
  EXPECT_EQ(names(9, true), "java,lockstep,a (b) c,");
  EXPECT_EQ(names(1, true), "java,");
  fs::remove_all(root);
  EXPECT_EQ(names(9, true), "");
  EXPECT_EQ(to_string(std::vector<MemoryConsumer>{{7, "java", 5 * kMiB}, {8, "", 0}}),
            "java (process 7) 5.00 MiB, another program (process 8)");
}

}  // namespace
}  // namespace lockstep
