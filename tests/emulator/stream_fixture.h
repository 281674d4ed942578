// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "kernels/cuda/launch.cuh"
#include "tests/support/cuda_emulator/streams.h"

namespace lockstep::test {

using emulator::StreamMode;

inline __global__ void set_kernel(float* y, float value) {
  cuda::wait_for_earlier_work();
  *y = value;
}
inline __global__ void add_kernel(float* y, const float* x) {
  cuda::wait_for_earlier_work();
  *y += *x;
}
inline __global__ void faulty_kernel() {
  cuda::wait_for_earlier_work();
  if (threadIdx.x > 0) __syncthreads();
}

/// Two streams that nothing orders, and three numbers on the device, all 0.
class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    emulator::set_stream_mode(StreamMode::late);
    for (cudaStream_t* stream : {&a, &b})
      ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    for (cudaEvent_t* e : {&event, &other_event})
      ASSERT_EQ(cudaEventCreateWithFlags(e, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&x, 3 * sizeof(float)), cudaSuccess);
    ASSERT_EQ(cudaMemset(x, 0, 3 * sizeof(float)), cudaSuccess);
    y = x + 1;
    z = x + 2;
    emulator::reset_calls();
  }
  void TearDown() override {
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaEventDestroy(event);
    cudaEventDestroy(other_event);
    cudaFree(x);
    cudaGetLastError();
    emulator::set_stream_mode(StreamMode::at_once);
  }

  static void set(cudaStream_t stream, float* to, float value) {
    cuda::launch("set", {.block = 1}, stream, set_kernel, to, value);
  }
  static void add(cudaStream_t stream, float* to, const float* from) {
    cuda::launch("add", {.block = 1}, stream, add_kernel, to, from);
  }
  /// Has `behind` wait for what was asked of `stream` so far.
  static void order(cudaStream_t stream, cudaEvent_t by, cudaStream_t behind) {
    EXPECT_EQ(cudaEventRecord(by, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(behind, by, 0), cudaSuccess);
  }

  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr, other_event = nullptr;
  float *x = nullptr, *y = nullptr, *z = nullptr;  // the host sees them too, in the emulator
};

/// Captures of `a`, which end with the test.
class GraphTest : public StreamTest {
 protected:
  void TearDown() override {
    cudaGraph_t graph = nullptr;
    for (const cudaStream_t stream : {a, b}) cudaStreamEndCapture(stream, &graph);
    StreamTest::TearDown();
  }

  void begin() { ASSERT_EQ(begin(a), cudaSuccess); }
  static cudaError_t begin(cudaStream_t stream) {
    return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  }
  /// Ends the capture of `a`. Null where that fails with `expected`.
  cudaGraphExec_t end(cudaError_t expected = cudaSuccess, std::size_t nodes = 0) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(a, &graph), expected);
    EXPECT_EQ(graph != nullptr, expected == cudaSuccess);
    if (graph == nullptr) return nullptr;
    std::size_t recorded = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &recorded), cudaSuccess);
    EXPECT_EQ(recorded, nodes);
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaGraphUpload(executable, a), cudaSuccess);
    return executable;
  }
  void launch_and_wait(cudaGraphExec_t executable) {
    EXPECT_EQ(cudaGraphLaunch(executable, a), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
  }
  static cudaStreamCaptureStatus status_of(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    return status;
  }
};

}  // namespace lockstep::test
