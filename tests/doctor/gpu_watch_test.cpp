// SPDX-License-Identifier: Apache-2.0
// The watch of a GPU, on a machine whose NVML is played by a library in a folder.
#include "launcher/gpu_monitor/gpu_watch.h"

#include <cmath>
#include <gmock/gmock.h>
#include <map>
#include <string>
#include <thread>

#include "launcher/gpu_monitor/nvml.h"
#include "lockstep/data/sources.h"
#include "lockstep/job.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"
#include "tests/doctor/fake_machine.h"

namespace lockstep {
namespace {

using doctor::FakeMachine;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Q = GpuQuantity;

constexpr const char* kAddress = "0000:1b:00.0";
constexpr milliseconds kPatience{20'000};  // of a loaded machine; reached only where a test fails

/// A GPU that NVML is asked of.
struct AskedGpu {
  AskedGpu(const std::string& library_folder, const std::string& address)
      : nvml(library_folder), device(nvml.find(address, &why)) {}
  bool part() const { return nvml.has_parts(device); }
  GpuValues limits() const { return nvml.limits(device, part()); }
  GpuSample sample() const { return nvml.sample(device, part()); }

  std::string why;  ///< it cannot be
  Nvml nvml;
  Nvml::Device device;
};

/// Two GPUs, the first of which says everything that is asked for.
class GpuWatchTest : public ::testing::Test {
 protected:
  GpuWatchTest() {
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"busy", "90,95,100"},
                                            {"bus_busy", "40"},
                                            {"used", "1000,3000,2000"},
                                            {"reserved", "500"},
                                            {"power_usage", "600000,650000"},
                                            {"clock_now", "1800"},
                                            {"memory_clock_now", "2619"},
                                            {"full_memory_clock", "2619"},
                                            {"temperature", "60,71,65"},
                                            {"throttled", "4,0,4"}})
      machine_.set_gpu("gpu0." + name, value);
  }

  GpuWatch::Settings settings(const std::string& device = kAddress) const {
    return {.device = device,
            .library_folder = machine_.environment.library_folder,
            .period = milliseconds(10),
            .max_wait = kPatience};
  }
  AskedGpu gpu(const std::string& device = kAddress) const {
    return {machine_.environment.library_folder, device};
  }
  /// How often the library was asked for use.
  int looks() const {
    return NvidiaLibrary(machine_.environment.library_folder, "libnvidia-ml.so.1")
        .call("fake_looks");
  }
  bool looks_come_to(int count) const {
    for (const auto end = Clock::now() + kPatience; Clock::now() < end;
         std::this_thread::sleep_for(milliseconds(1)))
      if (looks() >= count) return true;
    return false;
  }

  FakeMachine machine_;
};

bool brings_a_sample(GpuWatch& watch) {
  for (const auto end = Clock::now() + kPatience; Clock::now() < end;
       std::this_thread::sleep_for(milliseconds(1)))
    if (watch.newest()) return true;
  return false;
}

TEST_F(GpuWatchTest, SamplesEverythingThatIsSaid) {
  const AskedGpu gpu = this->gpu();
  ASSERT_EQ(gpu.why, "");
  const GpuValues limits = gpu.limits();
  EXPECT_DOUBLE_EQ(limits[Q::memory_bytes], 85520809984.);
  EXPECT_DOUBLE_EQ(limits[Q::power_w], 700);
  EXPECT_DOUBLE_EQ(limits[Q::clock_mhz], 1980);
  EXPECT_DOUBLE_EQ(limits[Q::memory_clock_mhz], 2619);
  const GpuSample first = gpu.sample(), second = gpu.sample();
  EXPECT_DOUBLE_EQ(first.values[Q::busy], 0.9);
  EXPECT_DOUBLE_EQ(second.values[Q::busy], 0.95);
  EXPECT_DOUBLE_EQ(first.values[Q::bus_busy], 0.4);
  // The limits took the first of the three numbers.
  EXPECT_DOUBLE_EQ(first.values[Q::memory_bytes], 3000) << "without what the driver reserves";
  EXPECT_DOUBLE_EQ(second.values[Q::memory_bytes], 2000);
  EXPECT_DOUBLE_EQ(second.values[Q::power_w], 650);
  EXPECT_DOUBLE_EQ(first.values[Q::clock_mhz], 1800);
  EXPECT_DOUBLE_EQ(first.values[Q::memory_clock_mhz], 2619);
  EXPECT_DOUBLE_EQ(second.values[Q::temperature_c], 71);
  EXPECT_EQ(first.reasons, 1u << unsigned(ClockReason::power_limit));
  EXPECT_EQ(second.reasons, 0u);
}

TEST_F(GpuWatchTest, UpperCaseAddressesAndOlderDriversAreUnderstood) {
  machine_.set_gpu("gpu0.reserved", "");
  machine_.set_gpu("gpu0.used", "7000");
  const AskedGpu gpu = this->gpu("0000:1B:00.0");
  ASSERT_EQ(gpu.why, "");
  EXPECT_DOUBLE_EQ(gpu.sample().values[Q::memory_bytes], 7000);
}

TEST_F(GpuWatchTest, HardwareSlowdownIsCountedOnce) {
  machine_.set_gpu("gpu0.throttled", "8,72,136,32");
  const AskedGpu gpu = this->gpu();
  for (const ClockReason reason :
       {ClockReason::slowdown, ClockReason::heat, ClockReason::power_supply, ClockReason::heat})
    EXPECT_EQ(gpu.sample().reasons, 1u << unsigned(reason));
}

TEST_F(GpuWatchTest, WhatIsNotSupportedIsNotSaid) {
  for (const char* name : {"busy", "power_usage", "clock_now", "throttled", "temperature"})
    machine_.set_gpu(std::string("gpu0.") + name, "");
  const AskedGpu gpu = this->gpu();
  GpuUse use;
  use.add(gpu.sample());
  for (const Q quantity : {Q::busy, Q::bus_busy, Q::power_w, Q::clock_mhz, Q::temperature_c})
    EXPECT_EQ(use[quantity].samples, 0);
  EXPECT_EQ(use.reason_samples, 0);
  EXPECT_EQ(use[Q::memory_bytes].samples, 1);
}

TEST_F(GpuWatchTest, APartHasNoSharesAndNoMemory) {
  machine_.set_gpu("gpu0.mig", "1");
  const AskedGpu gpu = this->gpu();
  EXPECT_TRUE(gpu.part());
  const GpuSample sample = gpu.sample();
  for (const Q quantity : {Q::busy, Q::bus_busy, Q::memory_bytes})
    EXPECT_TRUE(std::isnan(sample.values[quantity]));
  EXPECT_TRUE(std::isnan(gpu.limits()[Q::memory_bytes]));
  EXPECT_DOUBLE_EQ(sample.values[Q::power_w], 600);
  GpuWatch watch(settings());
  watch.begin();
  EXPECT_TRUE(brings_a_sample(watch));
  EXPECT_TRUE(watch.stop().part);
}

TEST_F(GpuWatchTest, SaysWhyThereIsNothingToWatch) {
  EXPECT_EQ(gpu("0000:99:00.0").why,
            "the driver's management library has no GPU 0000:99:00.0: Not Found (NVML error 6)");
  EXPECT_EQ(gpu("").why, "CUDA does not say which GPU this is");
  machine_.remove("/proc/driver");
  EXPECT_EQ(gpu().why,
            "the driver's management library does not start: Driver Not Loaded (NVML error 9)");
}

TEST_F(GpuWatchTest, SaysThatNvmlIsMissing) {
  machine_.remove("/lib/libnvidia-ml.so.1");
  EXPECT_THAT(gpu().why, HasSubstr("libnvidia-ml.so.1 is not found"));
  GpuWatch watch(settings());
  const GpuUse use = watch.stop();
  EXPECT_THAT(use.not_watched, HasSubstr("libnvidia-ml.so.1 is not found"));
  EXPECT_EQ(use.samples, 0);
}

TEST_F(GpuWatchTest, SaysThatNvmlIsBroken) {
  machine_.write("/lib/libnvidia-ml.so.1", "no library");
  EXPECT_THAT(gpu().why, HasSubstr("cannot be opened: "));
}

TEST_F(GpuWatchTest, AddsUpWhatItSees) {
  GpuWatch watch(settings());
  watch.begin();
  EXPECT_TRUE(looks_come_to(5));
  const GpuUse use = watch.stop();
  EXPECT_STREQ(use.not_watched, "");
  EXPECT_STREQ(use.device, kAddress);
  EXPECT_STRNE(use.host, "");
  EXPECT_FALSE(use.went_silent);
  ASSERT_GE(use.samples, 4);
  const double n = double(use.samples);
  EXPECT_DOUBLE_EQ(use[Q::busy].least, 0.9);
  EXPECT_DOUBLE_EQ(use[Q::busy].most, 1);
  // Sums of n numbers: n roundings.
  EXPECT_NEAR(use[Q::busy].mean(), (0.9 + 0.95 + (n - 2)) / n, 1e-15 * n);
  EXPECT_DOUBLE_EQ(use[Q::memory_bytes].most, 3000);
  EXPECT_DOUBLE_EQ(use[Q::temperature_c].most, 71);
  EXPECT_EQ(use.reason_samples, use.samples);
  EXPECT_EQ(use.throttled[std::size_t(ClockReason::power_limit)], use.samples - 1);
  EXPECT_EQ(watch.stop().samples, use.samples) << "a second stop says something else";
}

TEST_F(GpuWatchTest, LooksAtNothingBeforeTheFirstStepOrAfterTheEnd) {
  GpuWatch watch(settings());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(looks(), 0) << "before the first step";
  EXPECT_FALSE(watch.newest());
  watch.begin();
  EXPECT_TRUE(brings_a_sample(watch));
  watch.stop();
  const int then = looks();
  EXPECT_GT(then, 0);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(looks(), then) << "after the end";
}

TEST_F(GpuWatchTest, TheFirstSampleIsOfAPeriodOfTraining) {
  GpuWatch::Settings slow = settings();
  slow.period = milliseconds(200);
  GpuWatch watch(slow);
  std::this_thread::sleep_for(milliseconds(150));
  const auto begin = Clock::now();
  watch.begin();
  EXPECT_TRUE(brings_a_sample(watch));
  EXPECT_GE(Clock::now() - begin, slow.period);
}

/// Trains a little, and continues only when the watch has seen some of it.
TEST_F(GpuWatchTest, ARunHasItInItsRecords) {
  GpuWatch::Settings patient = settings();
  patient.stale_periods = int(kPatience / patient.period);
  GpuWatch watch(patient);
  Job job(0, nullptr);
  job.open_device("cpu");
  EXPECT_FALSE(job.gpu());
  TrainOptions options{.global_batch = 8, .steps = 2, .log_every = 1, .eval_every = 0};
  bool accepted = false;
  options.accepted = [&](bool) { accepted = true; };
  watch.follow(options, job.host_communicator());
  struct Told final : TrainObserver {
    explicit Told(GpuWatch& w) : watch(w) {}
    void on_step(const StepRecord& record) override {
      steps.push_back(record.gpu);
      EXPECT_TRUE(brings_a_sample(watch));
    }
    GpuWatch& watch;
    std::vector<std::optional<GpuSample>> steps;
  } told(watch);
  Trainer trainer(
      job, nn::make_model({.name = "mlp", .outputs = 10}), softmax_cross_entropy, options);
  trainer.add_observer(told);
  const TrainSummary summary = trainer.fit(data::glyphs(16, 16));
  EXPECT_TRUE(accepted);
  ASSERT_EQ(told.steps.size(), 2u);
  ASSERT_TRUE(told.steps[1]);
  EXPECT_GE(told.steps[1]->values[Q::busy], 0.9);
  ASSERT_EQ(summary.gpus.size(), 1u);
  EXPECT_GE(summary.gpus[0].samples, 1);
  EXPECT_STREQ(summary.gpus[0].device, kAddress);
}

/// A run ends within the bound, with what was seen before, and nothing changes any more.
TEST_F(GpuWatchTest, AHangingDriverHoldsNothingUp) {
  GpuWatch::Settings bounded = settings();
  bounded.max_wait = milliseconds(100);
  machine_.set_gpu("hang", "nvmlDeviceGetUtilizationRates");
  GpuUse use;
  {
    GpuWatch watch(bounded);
    watch.begin();
    EXPECT_TRUE(looks_come_to(1));
    const auto begin = Clock::now();
    use = watch.stop();
    EXPECT_LT(Clock::now() - begin, kPatience / 2);
    EXPECT_FALSE(watch.newest());
    machine_.set_gpu("hang", "");
    std::this_thread::sleep_for(milliseconds(50));  // the answer comes after all
    EXPECT_EQ(watch.stop().samples, 0);
  }
  EXPECT_TRUE(use.went_silent);
  EXPECT_EQ(use.samples, 0);
}

TEST_F(GpuWatchTest, ADriverThatNeverStartsHoldsNothingUp) {
  GpuWatch::Settings bounded = settings();
  bounded.max_wait = milliseconds(20);
  machine_.set_gpu("hang", "nvmlInit_v2");
  const auto begin = Clock::now();
  {
    GpuWatch watch(bounded);
    watch.begin();
    const GpuUse use = watch.stop();
    EXPECT_TRUE(use.went_silent);
    EXPECT_STREQ(use.not_watched, "NVML did not start in time");
  }
  EXPECT_LT(Clock::now() - begin, kPatience / 2);
  machine_.set_gpu("hang", "");
}

/// What was seen is not thrown away where the driver hangs after it.
TEST_F(GpuWatchTest, ADriverThatNeverClosesHoldsNothingUp) {
  GpuWatch::Settings bounded = settings();
  bounded.max_wait = milliseconds(500);
  machine_.set_gpu("hang", "nvmlShutdown");
  GpuWatch watch(bounded);
  watch.begin();
  EXPECT_TRUE(brings_a_sample(watch));
  const auto begin = Clock::now();
  const GpuUse use = watch.stop();
  EXPECT_LT(Clock::now() - begin, kPatience / 2);
  EXPECT_FALSE(use.went_silent);
  EXPECT_STREQ(use.not_watched, "");
  EXPECT_GE(use.samples, 1);
  machine_.set_gpu("hang", "");
}

/// The last answer counts where it comes before the watch is given up.
TEST_F(GpuWatchTest, AnAnswerUnderWayIsWaitedFor) {
  machine_.set_gpu("hang", "nvmlDeviceGetUtilizationRates");
  GpuWatch watch(settings());
  watch.begin();
  EXPECT_TRUE(looks_come_to(1));
  std::thread answer([this] {
    std::this_thread::sleep_for(milliseconds(100));
    machine_.set_gpu("hang", "");
  });
  const GpuUse use = watch.stop();
  answer.join();
  EXPECT_FALSE(use.went_silent);
  EXPECT_EQ(use.samples, 1);
}

/// Where the driver has stopped answering, the last answer is not told for ever.
TEST_F(GpuWatchTest, AnOldSampleIsNotTheNewest) {
  GpuWatch::Settings bounded = settings();
  bounded.max_wait = milliseconds(20);
  GpuWatch watch(bounded);
  watch.begin();
  EXPECT_TRUE(brings_a_sample(watch));
  machine_.set_gpu("hang", "nvmlDeviceGetUtilizationRates");
  bool silent = false;
  for (const auto end = Clock::now() + kPatience; !silent && Clock::now() < end;
       std::this_thread::sleep_for(milliseconds(10))) {
    const int before = looks();
    std::this_thread::sleep_for(milliseconds(50));
    silent = looks() == before && !watch.newest();
  }
  EXPECT_TRUE(silent);
  EXPECT_GT(watch.stop().samples, 0);
  machine_.set_gpu("hang", "");
}

}  // namespace
}  // namespace lockstep
