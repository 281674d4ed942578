// SPDX-License-Identifier: Apache-2.0
// What captures of the emulator refuse, and what they allow.
#include <gtest/gtest.h>
#include <thread>

#include "tests/emulator/stream_fixture.h"

namespace lockstep::test {
namespace {

class EmulatedCaptures : public GraphTest {
 protected:
  /// `call()` says `status` while `a` is captured, and nothing comes of the capture.
  template <typename Call>
  void expect_refused(cudaError_t status, Call call) {
    begin();
    set(a, x, 1);
    EXPECT_EQ(call(), status);
    EXPECT_EQ(status_of(a), cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(cudaMemsetAsync(x, 0, 4, a), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(end(cudaErrorStreamCaptureInvalidated), nullptr);
    EXPECT_EQ(status_of(a), cudaStreamCaptureStatusNone);
  }
};

TEST_F(EmulatedCaptures, WhatInvalidatesACapture) {
  void* memory = nullptr;
  const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported;
  expect_refused(unsupported, [&] { return cudaStreamSynchronize(a); });
  expect_refused(unsupported, [&] { return cudaStreamQuery(a); });
  expect_refused(unsupported, [&] { return cudaDeviceSynchronize(); });
  expect_refused(unsupported, [&] { return cudaMalloc(&memory, 4); });
  expect_refused(unsupported, [&] { return cudaFree(x); });
  expect_refused(unsupported, [&] { return cudaMallocHost(&memory, 4); });
  expect_refused(unsupported, [&] { return cudaMemset(x, 0, 4); });
  expect_refused(unsupported, [&] { return cudaMemcpy(x, y, 4, cudaMemcpyDeviceToDevice); });
  const auto record = [&] { return cudaEventRecord(other_event, a); };
  expect_refused(cudaErrorCapturedEvent, [&] { return record(), cudaEventQuery(other_event); });
  expect_refused(cudaErrorCapturedEvent,
                 [&] { return record(), cudaEventSynchronize(other_event); });
  ASSERT_EQ(cudaEventRecord(event, b), cudaSuccess);
  expect_refused(cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(a, event, 0); });
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(begin(blocking), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(x, 0, 4, nullptr), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  EXPECT_EQ(*x, 0);
}

TEST_F(EmulatedCaptures, WhatACaptureAllows) {
  cudaPointerAttributes attributes{};
  cudaEvent_t made = nullptr;
  std::size_t free = 0, total = 0;
  begin();
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, x), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&made), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(made), cudaSuccess);
  set(b, y, 1);
  EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
  EXPECT_EQ(*y, 1);
  std::thread([] {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }).join();
  EXPECT_EQ(cudaGraphExecDestroy(end(cudaSuccess, 0)), cudaSuccess);
}

TEST_F(EmulatedCaptures, CapturesThatDoNotEnd) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(begin(nullptr), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(a, &graph), cudaErrorIllegalState);
  begin();
  EXPECT_EQ(begin(a), cudaErrorIllegalState);
  set(a, x, 1);
  order(a, event, b);
  set(b, y, 1);
  EXPECT_EQ(end(cudaErrorStreamCaptureUnjoined), nullptr);
  EXPECT_EQ(status_of(b), cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorCapturedEvent);

  begin();
  order(a, event, b);
  EXPECT_EQ(cudaStreamEndCapture(b, &graph), cudaErrorStreamCaptureUnmatched);
  end(cudaErrorStreamCaptureInvalidated);

  begin();
  ASSERT_EQ(begin(b), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, b), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(a, event, 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(cudaStreamEndCapture(b, &graph), cudaErrorStreamCaptureInvalidated);
  end(cudaErrorStreamCaptureInvalidated);

  begin();
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  end(cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace lockstep::test
