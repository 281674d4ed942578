// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cupti_tracer.h"

#include <dlfcn.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "kernels/cuda/device/activity_join.h"
#include "lockstep/error.h"
extern "C" {
#include "tests/tracing/fake_cupti.h"
}

namespace lockstep::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of cupti_result.h.
constexpr int kMultipleSubscribers = 39, kInsufficientPrivileges = 35;

struct Sink final : DeviceActivitySink {
  struct Taken {
    std::uint64_t mark;
    std::string name;
    std::uint32_t stream;
    std::chrono::steady_clock::time_point begin, end;
  };
  void take(const DeviceActivity& a) override {
    taken.push_back({a.mark, std::string(a.name), a.stream, a.begin, a.end});
  }
  void lose(std::int64_t activities) override { lost += activities; }

  std::vector<std::uint64_t> marks() const {
    std::vector<std::uint64_t> result;
    for (const Taken& one : taken) result.push_back(one.mark);
    return result;
  }
  std::vector<Taken> taken;
  std::int64_t lost = 0;
};

LibraryName fake_name() {
  LibraryName name = cupti_name();
  name.file = FAKE_CUPTI;
  return name;
}

class CuptiTracer : public ::testing::Test {
 protected:
  template <typename Function>
  Function* find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void SetUp() override {
    ASSERT_NE(library_, nullptr) << dlerror();
    fake() = {};
    fake().version = FAKE_CUPTI_VERSION;
  }
  FakeCupti& fake() { return *find<FakeCupti*()>("fake_cupti")(); }
  void kernel(const char* name, std::uint32_t stream = 7, std::uint64_t ns = 1000) {
    find<void(const char*, std::uint32_t, std::uint64_t)>("fake_cupti_kernel")(name, stream, ns);
  }
  /// What start() throws, as "message | hint".
  std::string refusal() {
    try {
      Sink sink;
      make_cupti_tracer(fake_name())->start(sink);
    } catch (const EnvironmentError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "no error";
  }

  void* library_ = dlopen(FAKE_CUPTI, RTLD_NOW);
};

TEST_F(CuptiTracer, KernelsBelongToTheInnermostMark) {
  for (const bool late : {false, true}) {
    fake().marks_late = late;
    const auto tracer = make_cupti_tracer(fake_name());
    Sink sink;
    tracer->start(sink);
    tracer->push(1);
    kernel("a");
    tracer->push(2);
    kernel("b", 9);
    find<void(std::uint64_t)>("fake_cupti_copy")(500);
    tracer->pop();
    kernel("c");
    tracer->pop();
    kernel("outside");
    tracer->stop();
    std::map<std::string, std::pair<std::uint64_t, std::uint32_t>> found;
    for (const auto& one : sink.taken) found[one.name] = {one.mark, one.stream};
    using Expected = std::map<std::string, std::pair<std::uint64_t, std::uint32_t>>;
    EXPECT_EQ(found,
              (Expected{{"a", {1, 7}},
                        {"b", {2, 9}},
                        {"copy to host", {2, 7}},
                        {"c", {1, 7}},
                        {"outside", {DeviceActivity::kUnmarked, 7}}}));
    EXPECT_EQ(sink.lost, 0);
    EXPECT_EQ(fake().enabled, 0) << "CUPTI goes on after stop()";
  }
}

TEST_F(CuptiTracer, TimesAreOfTheSteadyClock) {
  const auto tracer = make_cupti_tracer(fake_name());
  Sink sink;
  tracer->start(sink);
  const auto before = std::chrono::steady_clock::now();
  kernel("a", 7, 250'000);
  const auto after = std::chrono::steady_clock::now();
  tracer->stop();
  ASSERT_EQ(sink.taken.size(), 1u);
  // CUPTI's clock is ahead by more than an hour.
  const std::chrono::seconds slack(10);
  EXPECT_GE(sink.taken[0].begin, before - slack);
  EXPECT_LE(sink.taken[0].begin, after + slack);
  EXPECT_EQ(sink.taken[0].end - sink.taken[0].begin, std::chrono::microseconds(250));
}

TEST_F(CuptiTracer, ManyBuffersAreReadAsTheyFill) {
  const auto tracer = make_cupti_tracer(fake_name());
  Sink sink;
  tracer->start(sink);
  constexpr int kKernels = 300'000;  // several times what all buffers hold
  tracer->push(5);
  for (int i = 0; i < kKernels; ++i) kernel("a");
  tracer->pop();
  tracer->stop();
  EXPECT_EQ(sink.taken.size(), std::size_t(kKernels));
  EXPECT_EQ(std::ranges::count(sink.marks(), 5u), kKernels);
  EXPECT_EQ(sink.lost, 0);
}

TEST_F(CuptiTracer, InWhateverOrderBuffersComeKernelsBelongToTheirMarks) {
  for (const bool flushed : {false, true}) {
    fake().hard_order = 1;
    const auto tracer = make_cupti_tracer(fake_name());
    Sink sink;
    tracer->start(sink);
    constexpr std::uint64_t kKernels = 150'000;
    for (std::uint64_t i = 0; i < kKernels; ++i) {
      tracer->push(i);
      kernel("a", std::uint32_t(7 + i % 2));
      tracer->pop();
      if (flushed && i % 40'003 == 7) find<int(std::uint32_t)>("cuptiActivityFlushAll")(0);
    }
    kernel("outside");
    tracer->stop();
    EXPECT_EQ(sink.lost, 0);
    std::vector<std::uint64_t> marks = sink.marks();
    EXPECT_FALSE(std::ranges::is_sorted(marks)) << "the order was an easy one";
    std::ranges::sort(marks);
    ASSERT_EQ(marks.size(), kKernels + 1);
    EXPECT_EQ(marks.back(), DeviceActivity::kUnmarked);
    for (std::uint64_t i = 0; i < kKernels; ++i) ASSERT_EQ(marks[i], i);
    for (const Sink::Taken& one : sink.taken) {
      if (one.name == "outside") continue;
      ASSERT_EQ(one.stream, 7 + one.mark % 2) << one.mark;
    }
  }
}

TEST_F(CuptiTracer, WhatNobodyReadsInTimeIsCounted) {
  fake().holds_buffers = 1;
  const auto tracer = make_cupti_tracer(fake_name());
  Sink sink;
  tracer->start(sink);
  constexpr int kKernels = 300'000;
  for (int i = 0; i < kKernels; ++i) kernel("a");
  tracer->stop();
  EXPECT_LT(sink.taken.size(), std::size_t(kKernels));
  EXPECT_GT(sink.taken.size(), 0u);
  // A call without a mark has a record of its own next to the kernel's.
  EXPECT_GE(sink.lost, kKernels - std::int64_t(sink.taken.size()));
  EXPECT_LE(sink.lost, 2 * (kKernels - std::int64_t(sink.taken.size())) + 2);
}

TEST_F(CuptiTracer, AKernelWithoutTimesIsLost) {
  const auto tracer = make_cupti_tracer(fake_name());
  Sink sink;
  tracer->start(sink);
  find<void()>("fake_cupti_untimed_kernel")();
  kernel("a");
  tracer->stop();
  EXPECT_EQ(sink.taken.size(), 1u);
  EXPECT_EQ(sink.lost, 1);
}

TEST_F(CuptiTracer, ARefusalNamesTheRemedyAndLeavesNothingRunning) {
  fake().enable_status = kInsufficientPrivileges;
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
                    HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"),
                    HasSubstr("root")));
  fake().enable_status = kMultipleSubscribers;
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS"), HasSubstr("another tool")));
  fake().enable_status = 0;
  EXPECT_EQ(refusal(), "no error") << "a refused start is in the way of the next one";
}

TEST_F(CuptiTracer, AMissingLibraryAndAnotherVersionAreNamed) {
  const auto error_of = [](const LibraryName& name) -> std::string {
    try {
      make_cupti_tracer(name);
    } catch (const EnvironmentError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "no error";
  };
  LibraryName missing = cupti_name();
  missing.file = "libnobody_has_this.so.13";
  EXPECT_THAT(error_of(missing),
              AllOf(HasSubstr("libnobody_has_this.so.13"),
                    HasSubstr("pip install nvidia-cuda-cupti"),
                    HasSubstr("LD_LIBRARY_PATH")));
  fake().version = 18;  // of CUDA 11.8
  LibraryName old = fake_name();
  const std::filesystem::path path(FAKE_CUPTI);
  old.file = (path.parent_path() / "." / path.filename()).string();
  EXPECT_THAT(error_of(old),
              AllOf(HasSubstr("is version 11 (interface 18)"), HasSubstr("or later of CUDA 1")));
}

TEST(ActivityJoin, MemoryForWhatWaitsIsBounded) {
  Sink sink;
  ActivityJoin join(sink);
  const auto most = std::uint32_t(ActivityJoin::kMaxWaiting);
  for (std::uint32_t call = 1; call <= most; ++call) join.take(call, {.name = "early"});
  EXPECT_TRUE(sink.taken.empty());
  join.mark(1, 11);
  join.take(most + 1, {.name = "one too many"});
  EXPECT_EQ(sink.taken.size(), most / 2) << "the older half is handed on as it is";
  EXPECT_EQ(sink.taken.front().mark, 11u);
  EXPECT_EQ(sink.taken.back().mark, DeviceActivity::kUnmarked);
  join.mark(2, 12);  // too late
  join.mark(most, 13);
  join.mark(most + 1, 14);
  join.resolve();
  EXPECT_EQ(std::ranges::count(sink.marks(), 12u), 0);
  EXPECT_EQ(std::ranges::count(sink.marks(), 13u), 1) << "the younger half goes on waiting";
  EXPECT_EQ(sink.taken.back().mark, 14u);
  join.finish();
  EXPECT_EQ(sink.taken.size(), most + 1);
}

TEST(ActivityJoin, AnOldCallDoesNotLendItsMark) {
  Sink sink;
  ActivityJoin join(sink);
  join.mark(3, 11);
  join.take(3 + std::uint32_t(ActivityJoin::kCalls), {.name = "later"});
  join.finish();
  EXPECT_THAT(sink.marks(), ElementsAre(DeviceActivity::kUnmarked));
}

}  // namespace
}  // namespace lockstep::cuda
