// SPDX-License-Identifier: Apache-2.0
// What replays of the emulator's graphs do.
#include <gmock/gmock.h>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "lockstep/error.h"
#include "tests/emulator/stream_fixture.h"

namespace lockstep::test {
namespace {

using EmulatedGraphs = GraphTest;

TEST_F(EmulatedGraphs, ReplaysDoTheWorkAgainWithTheValuesOfThen) {
  for (const StreamMode mode : {StreamMode::at_once, StreamMode::late}) {
    emulator::set_stream_mode(mode);
    *x = *y = 0;
    emulator::reset_calls();
    begin();
    EXPECT_EQ(status_of(a), cudaStreamCaptureStatusActive);
    add(a, y, x);
    EXPECT_EQ(cudaMemcpyAsync(z, y, sizeof *z, cudaMemcpyDeviceToDevice, a), cudaSuccess);
    const cudaGraphExec_t executable = end(cudaSuccess, 2);
    EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
    EXPECT_EQ(*y, 0);
    *x = 1;
    launch_and_wait(executable);
    launch_and_wait(executable);
    EXPECT_EQ(*y, 2);
    set(a, x, 10);
    launch_and_wait(executable);
    EXPECT_EQ(*z, 12);
    EXPECT_EQ(emulator::calls().kernel_launches, 1u);
    EXPECT_EQ(emulator::calls().copies, 0u);
    EXPECT_EQ(emulator::calls().graph_launches, 3u);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  }
}

TEST_F(EmulatedGraphs, LaunchesKeepTheirOrderOnTwoStreams) {
  begin();
  add(a, y, x);
  const cudaGraphExec_t executable = end(cudaSuccess, 1);
  set(a, x, 1);
  EXPECT_EQ(cudaGraphLaunch(executable, a), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, b), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
  EXPECT_EQ(*y, 2);
}

TEST_F(EmulatedGraphs, FunctionsOfTheHostAreCalledByEveryReplay) {
  struct {
    int calls = 0, releases = 0;
  } count;
  using Count = decltype(count);
  begin();
  EXPECT_EQ(lockstep_emulator_enqueue(
                a,
                [](void* n) { ++static_cast<Count*>(n)->calls; },
                &count,
                [](void* n) { ++static_cast<Count*>(n)->releases; }),
            0);
  const cudaGraphExec_t executable = end(cudaSuccess, 1);
  EXPECT_EQ(count.calls, 0);
  launch_and_wait(executable);
  launch_and_wait(executable);
  EXPECT_EQ(count.calls, 2);
  EXPECT_EQ(count.releases, 0);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(count.releases, 1);
}

// x = 1; concurrently y += x on the other stream, whose result z takes.
TEST_F(EmulatedGraphs, BranchesComeAsTheirDependenciesAllow) {
  enum class Missing { nothing, fork, join };
  const auto wait_for_other = [&] {
    EXPECT_EQ(cudaStreamWaitEvent(a, other_event, 0), cudaSuccess);
  };
  for (const StreamMode mode : {StreamMode::late, StreamMode::others_first})
    for (const Missing missing : {Missing::nothing, Missing::fork, Missing::join}) {
      emulator::set_stream_mode(mode);
      *x = *y = *z = 0;
      begin();
      if (missing == Missing::fork) order(a, event, b);
      set(a, x, 1);
      if (missing != Missing::fork) order(a, event, b);
      EXPECT_EQ(status_of(b), cudaStreamCaptureStatusActive);
      add(b, y, x);
      EXPECT_EQ(cudaEventRecord(other_event, b), cudaSuccess);
      if (missing != Missing::join) wait_for_other();
      add(a, z, y);
      if (missing == Missing::join) wait_for_other();
      const cudaGraphExec_t executable = end(cudaSuccess, 3);
      EXPECT_EQ(status_of(b), cudaStreamCaptureStatusNone);
      launch_and_wait(executable);
      const Missing found = mode == StreamMode::late ? Missing::join : Missing::fork;
      EXPECT_EQ(*z, missing == found ? 0 : 1);
      EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    }
}

TEST_F(EmulatedGraphs, FaultsOfReplaysComeFromTheWait) {
  begin();
  cuda::launch("faulty", {.block = 2}, a, faulty_kernel);
  const cudaGraphExec_t executable = end(cudaSuccess, 1);
  EXPECT_EQ(cudaGraphLaunch(executable, a), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a), cudaErrorLaunchFailure);
  emulator::set_stream_mode(StreamMode::at_once);
  EXPECT_EQ(cudaGraphLaunch(executable, a), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGraphLaunch(executable, a), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

constexpr int kElems = 100;

TEST_F(EmulatedGraphs, OfABackend) {
  for (const StreamMode mode : {StreamMode::at_once, StreamMode::late, StreamMode::others_first}) {
    emulator::set_stream_mode(mode);
    const auto backend = make_cuda_backend(0);
    const auto one = backend->allocate(sizeof(float[kElems]), "one");
    const auto sum = backend->allocate(sizeof(float[kElems]), "sum");
    const auto copy = backend->allocate(sizeof(float[kElems]), "copy");
    const auto begun = backend->make_event(), ended = backend->make_event();
    backend->synchronize();
    backend->begin_capture();
    backend->add(sum->as<float>(), sum->as<float>(), one->as<float>(), kElems);
    backend->record(*begun);
    {
      const StreamScope scope(*backend, DeviceStream::communication);
      backend->wait_for(*begun);
      backend->copy(copy->data(), sum->data(), sum->bytes());
      backend->record(*ended);
    }
    backend->wait_for(*ended);
    const auto graph = backend->end_capture();
    EXPECT_EQ(graph->nodes(), 2u);

    const std::vector<float> ones(kElems, 1.0f);
    backend->copy_to_device(one->data(), ones.data(), one->bytes());
    emulator::reset_calls();
    graph->launch();
    graph->launch();
    EXPECT_EQ(emulator::calls().graph_launches, 2u);
    EXPECT_EQ(emulator::calls().kernel_launches, 0u);
    std::vector<float> result(kElems);
    backend->copy_to_host(result.data(), copy->data(), copy->bytes());
    EXPECT_THAT(result, ::testing::Each(2.0f));
  }
}

TEST_F(EmulatedGraphs, ABackendGoesOnAfterARecordingThatFailed) {
  const auto backend = make_cuda_backend(0);
  const auto buffer = backend->allocate(sizeof(float[kElems]), "values");
  const auto double_values = [&] {
    backend->add(buffer->as<float>(), buffer->as<float>(), buffer->as<float>(), kElems);
  };
  std::vector<float> values(kElems, 1.0f);
  backend->copy_to_device(buffer->data(), values.data(), buffer->bytes());
  const auto fail = [&] {
    backend->begin_capture();
    double_values();
    EXPECT_THROW(backend->copy_to_host(values.data(), buffer->data(), buffer->bytes()), Error);
    EXPECT_THROW(double_values(), Error);
  };
  fail();
  backend->abandon_capture();
  fail();
  EXPECT_THROW(backend->end_capture(), Error);
  backend->abandon_capture();
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);

  double_values();
  backend->begin_capture();
  double_values();
  backend->end_capture()->launch();
  backend->copy_to_host(values.data(), buffer->data(), buffer->bytes());
  EXPECT_THAT(values, ::testing::Each(4.0f));
}

}  // namespace
}  // namespace lockstep::test
