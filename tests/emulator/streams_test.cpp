// SPDX-License-Identifier: Apache-2.0
// That streams of the emulator keep the order they were asked for, and no other.
#include <atomic>
#include <gmock/gmock.h>
#include <thread>
#include <vector>

#include "tests/emulator/stream_fixture.h"

namespace lockstep::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using EmulatedStreams = StreamTest;

TEST_F(EmulatedStreams, MissingWaitForAnotherStream) {
  for (const bool bug : {true, false}) {
    set(a, y, 0);
    ASSERT_EQ(cudaStreamSynchronize(a), cudaSuccess);
    set(a, x, 1);
    if (!bug) order(a, event, b);
    add(b, y, x);
    ASSERT_EQ(cudaStreamSynchronize(b), cudaSuccess);
    EXPECT_EQ(*y, bug ? 0 : 1);
  }
}

TEST_F(EmulatedStreams, WorkThatBeginsTooEarly) {
  for (const StreamMode mode : {StreamMode::late, StreamMode::others_first})
    for (const bool bug : {true, false}) {
      emulator::set_stream_mode(mode);
      *x = *y = 0;
      set(a, x, 1);
      if (!bug) order(a, event, b);
      add(b, y, x);
      order(b, other_event, a);
      ASSERT_EQ(cudaStreamSynchronize(a), cudaSuccess);
      EXPECT_EQ(*y, bug && mode == StreamMode::others_first ? 0 : 1);
    }
}

TEST_F(EmulatedStreams, PinnedMemoryIsReadByTheCopyWhenItRuns) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocHost(&memory, sizeof(float)), cudaSuccess);
  auto* host = static_cast<float*>(memory);
  for (const bool bug : {true, false}) {
    *host = 1;
    EXPECT_EQ(cudaMemcpyAsync(x, host, sizeof(float), cudaMemcpyHostToDevice, a), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, a), cudaSuccess);
    if (!bug) {
      EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
    }
    *host = 2;
    EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
    EXPECT_EQ(*x, bug ? 2 : 1);
  }
  EXPECT_EQ(cudaFreeHost(memory), cudaSuccess);
}

TEST_F(EmulatedStreams, KindsOfMemory) {
  void* pinned = nullptr;
  float pageable = 0;
  ASSERT_EQ(cudaMallocHost(&pinned, 100), cudaSuccess);
  const auto kind = [](const void* memory) {
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
    return attributes.type;
  };
  const auto* bytes = static_cast<const char*>(pinned);
  EXPECT_EQ(kind(bytes), cudaMemoryTypeHost);
  EXPECT_EQ(kind(bytes + 99), cudaMemoryTypeHost);
  EXPECT_EQ(kind(z), cudaMemoryTypeDevice);
  EXPECT_EQ(kind(&pageable), cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(kind(bytes), cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

TEST_F(EmulatedStreams, AWaitMeansTheLatestRecordBeforeIt) {
  EXPECT_EQ(cudaStreamWaitEvent(b, event, 0), cudaSuccess);
  set(a, x, 1);
  order(a, event, b);
  set(a, x, 2);
  EXPECT_EQ(cudaEventRecord(event, a), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
  EXPECT_EQ(*x, 1);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(*x, 2);
  EXPECT_EQ(cudaEventSynchronize(other_event), cudaSuccess);
}

TEST_F(EmulatedStreams, PollingEnds) {
  set(a, x, 1);
  order(a, event, b);
  set(b, y, 2);
  int polls = 0;
  while (cudaStreamQuery(b) == cudaErrorNotReady) ++polls;
  EXPECT_EQ(polls, 4);  // both kernels, the record and the wait
  EXPECT_EQ(*y, 2);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(other_event), cudaSuccess);
}

TEST_F(EmulatedStreams, ErrorsComeFromTheWait) {
  cuda::launch("faulty", {.block = 2}, a, faulty_kernel);
  set(a, x, 1);
  EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a), cudaErrorLaunchFailure);
  EXPECT_THAT(cudaGetErrorString(cudaErrorLaunchFailure), HasSubstr("divergent barrier"));
  EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
  EXPECT_EQ(*x, 1);

  const auto launch = [&](unsigned threads) {
    const cudaLaunchConfig_t config{.gridDim = {}, .blockDim = threads, .stream = a};
    return cudaLaunchKernelEx(&config, faulty_kernel);
  };
  EXPECT_EQ(launch(1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaMemsetAsync(z, 0, 5, a), cudaErrorInvalidValue);
  EXPECT_EQ(launch(2), cudaSuccess);
  // Callers look at no errors of these.
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 1), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(b), cudaErrorLaunchFailure);
  emulator::set_stream_mode(StreamMode::at_once);
  EXPECT_EQ(launch(2), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
}

TEST_F(EmulatedStreams, TheNullStreamAndBlockingStreamsWaitForEachOther) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  set(blocking, x, 1);
  add(nullptr, y, x);
  add(blocking, z, y);
  add(a, y, x);
  float result = -1;
  EXPECT_EQ(cudaMemcpy(&result, y, sizeof result, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(result, 1);
  EXPECT_EQ(*z, 1);
  set(blocking, x, 2);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(*x, 2);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(blocking), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
  EXPECT_EQ(*y, 3);
}

/// What functions of the host have seen, and the status of what they tried.
struct Seen {
  float* value;
  std::vector<float> values = {};
  cudaError_t status = cudaSuccess;

  static void look(void* seen) {
    auto& self = *static_cast<Seen*>(seen);
    self.values.push_back(*self.value);
    self.status = cudaStreamSynchronize(nullptr);
  }
};

TEST_F(EmulatedStreams, FunctionsOfTheHost) {
  for (const StreamMode mode : {StreamMode::at_once, StreamMode::late}) {
    emulator::set_stream_mode(mode);
    Seen seen{x};
    set(a, x, 1);
    EXPECT_EQ(cudaLaunchHostFunc(a, Seen::look, &seen), cudaSuccess);
    set(a, x, 2);
    EXPECT_EQ(lockstep_emulator_enqueue(a, Seen::look, &seen), 0);
    set(a, x, 3);
    EXPECT_EQ(seen.values.empty(), mode == StreamMode::late);
    EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
    EXPECT_THAT(seen.values, ElementsAre(1, 2));
    EXPECT_EQ(seen.status, cudaErrorNotPermitted);
  }
}

// As a collective waits for another rank.
TEST_F(EmulatedStreams, AFunctionOfTheHostLetsOtherThreadsUseTheDevice) {
  struct Meeting {
    std::atomic<int> there = 0;
    static void meet(void* meeting) {
      auto& self = *static_cast<Meeting*>(meeting);
      ++self.there;
      while (self.there < 2) std::this_thread::yield();
    }
  } meeting;
  const auto take_part = [&](cudaStream_t stream, float* to) {
    set(stream, to, 1);
    EXPECT_EQ(lockstep_emulator_enqueue(stream, Meeting::meet, &meeting), 0);
    set(stream, to, 2);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  };
  std::thread other(take_part, b, y);
  take_part(a, x);
  other.join();
  EXPECT_EQ(*x + *y, 4);
}

TEST_F(EmulatedStreams, CallsAreCounted) {
  set(a, x, 1);
  set(a, y, 1);
  float host = 0;
  EXPECT_EQ(cudaMemcpyAsync(&host, x, sizeof host, cudaMemcpyDeviceToHost, a), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, a), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&host, y, sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const emulator::Calls calls = emulator::calls();
  EXPECT_EQ(calls.kernel_launches, 2u);
  EXPECT_EQ(calls.copies, 2u);
  EXPECT_EQ(calls.event_records, 1u);
  EXPECT_EQ(calls.host_waits, 2u);
  EXPECT_EQ(calls.graph_launches, 0u);
  emulator::reset_calls();
  EXPECT_EQ(emulator::calls().kernel_launches, 0u);
}

}  // namespace
}  // namespace lockstep::test
