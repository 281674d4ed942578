// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/nccl_probe.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <exception>
#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "parallel/comm/nccl/nccl_communicator.h"
#include "parallel/comm/nccl/nccl_library.h"

namespace {

using Clock = std::chrono::steady_clock;
using lockstep::Nccl;

constexpr std::size_t kElems = 1 << 20;
constexpr int kReplays = 3;
constexpr int kSteps = 9;

char hang_line[256];

// Nothing else can end a step that hangs inside of the driver.
void report_hang(int) {
  (void)!write(STDOUT_FILENO, hang_line, std::string_view(hang_line).size());
  _exit(1);
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(status)));
}

/// Runs the steps of the probe one by one, each within `step_seconds`.
class Steps {
 public:
  explicit Steps(int step_seconds) : step_seconds_(step_seconds) {
    std::signal(SIGALRM, report_hang);
  }

  /// `step` returns what is worth telling, or nothing. Throws what it throws.
  template <typename Step>
  void run(const char* name, Step step) {
    name_ = name;
    std::snprintf(hang_line,
                  sizeof hang_line,
                  "HANGS: %s: no end after %d s\nresult: %d of %d steps; hangs: %s\n",
                  name,
                  step_seconds_,
                  done_,
                  kSteps,
                  name);
    const auto begin = Clock::now();
    alarm(unsigned(step_seconds_));
    const std::string note = step();
    alarm(0);
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    std::printf("ok: %s, %.1f ms%s%s\n", name, ms, note.empty() ? "" : ": ", note.c_str());
    std::fflush(stdout);
    ++done_;
  }
  int done() const { return done_; }
  const char* name() const { return name_; }

 private:
  const int step_seconds_;
  const char* name_ = "start";
  int done_ = 0;
};

/// A communicator of this process alone, with a stream and memory of its own.
class Part {
 public:
  explicit Part(const Nccl& nccl) : nccl_(nccl) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaMalloc(&from_, kElems * sizeof(float)), "cudaMalloc");
    check(cudaMalloc(&to_, kElems * sizeof(float)), "cudaMalloc");
  }

  void join() {
    ncclUniqueId id;
    resolve(nccl_.ncclGetUniqueId(&id), "ncclGetUniqueId");
    ncclConfig_t config = own_config();
    resolve(nccl_.ncclCommInitRankScalable(&comm_, 1, 0, 1, &id, &config),
            "ncclCommInitRankScalable");
  }
  void split_from(Part& whole) {
    ncclConfig_t config = own_config();
    const ncclResult_t status = nccl_.ncclCommSplit(whole.comm_, 0, 0, &comm_, &config);
    // NCCL 2.28.9 returns success while it is still at work.
    whole.resolve(status == ncclSuccess ? ncclInProgress : status, "ncclCommSplit");
    if (comm_ == nullptr)
      throw std::runtime_error("ncclCommSplit has ended and left no communicator");
    resolve(ncclInProgress, "the part of ncclCommSplit");
  }
  void all_gather() {
    resolve(nccl_.ncclAllGather(from_, to_, kElems, ncclFloat, comm_, stream_), "ncclAllGather");
  }
  void send_to_itself() {
    ncclResult_t status = nccl_.ncclGroupStart();
    if (status == ncclSuccess) status = nccl_.ncclSend(from_, kElems, ncclFloat, 0, comm_, stream_);
    if (status == ncclSuccess || status == ncclInProgress)
      status = nccl_.ncclRecv(to_, kElems, ncclFloat, 0, comm_, stream_);
    const ncclResult_t ended = nccl_.ncclGroupEnd();
    const bool well = status == ncclSuccess || status == ncclInProgress;
    resolve(well ? ended : status, "ncclSend and ncclRecv");
  }
  void destroy() {
    resolve(nccl_.ncclCommFinalize(comm_), "ncclCommFinalize");
    require(nccl_.ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
  }
  void abort() { require(nccl_.ncclCommAbort(std::exchange(comm_, nullptr)), "ncclCommAbort"); }

  /// What the next transfer moves; what it left is overwritten.
  void fill(float first) {
    std::vector<float> values(kElems);
    for (std::size_t i = 0; i < kElems; ++i) values[i] = first + float(i % 1021);
    const std::size_t bytes = kElems * sizeof(float);
    check(cudaMemcpy(from_, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemset(to_, 0xff, bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  /// That a transfer brought what fill(first) gave it, and NCCL met no error behind the host's
  /// back.
  void expect(float first, const char* what) const {
    check(cudaStreamSynchronize(stream_), what);
    ncclResult_t met = ncclSuccess;
    require(nccl_.ncclCommGetAsyncError(comm_, &met), "ncclCommGetAsyncError");
    require(met, what);
    std::vector<float> values(kElems);
    const std::size_t bytes = kElems * sizeof(float);
    check(cudaMemcpy(values.data(), to_, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (std::size_t i = 0; i < kElems; ++i)
      if (values[i] != first + float(i % 1021))
        throw std::runtime_error(fmt::format(
            "{}: element {} is {}, expected {}", what, i, values[i], first + float(i % 1021)));
  }
  cudaStream_t stream() const { return stream_; }

 private:
  static ncclConfig_t own_config() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 0;
    return config;
  }
  void require(ncclResult_t status, const char* what) const {
    if (status != ncclSuccess)
      throw std::runtime_error(
          fmt::format("{}: {}", what, lockstep::error_text(nccl_, status, comm_)));
  }
  void resolve(ncclResult_t status, const char* what) {
    while (status == ncclInProgress) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      ncclResult_t now = ncclSuccess;
      require(nccl_.ncclCommGetAsyncError(comm_, &now), "ncclCommGetAsyncError");
      status = now;
    }
    require(status, what);
  }

  const Nccl& nccl_;
  cudaStream_t stream_ = nullptr;
  float *from_ = nullptr, *to_ = nullptr;
  ncclComm_t comm_ = nullptr;
};

/// Both transfers as one graph, which begins and ends in the stream of `first`.
class Captured {
 public:
  Captured(Part& first, Part& second) : stream_(first.stream()) {
    cudaEvent_t forked = nullptr, joined = nullptr;
    check(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "the capture begins");
    check(cudaEventRecord(forked, stream_), "cudaEventRecord");
    check(cudaStreamWaitEvent(second.stream(), forked, 0), "cudaStreamWaitEvent");
    first.all_gather();
    second.send_to_itself();
    check(cudaEventRecord(joined, second.stream()), "cudaEventRecord");
    check(cudaStreamWaitEvent(stream_, joined, 0), "cudaStreamWaitEvent");
    check(cudaStreamEndCapture(stream_, &graph_), "the capture ends");
    check(cudaGraphInstantiate(&executable_, graph_, cudaGraphInstantiateFlagUseNodePriority),
          "cudaGraphInstantiate");
    cudaEventDestroy(forked);
    cudaEventDestroy(joined);
  }
  void launch() { check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch"); }
  /// As long as it is there, an abort of a communicator waits.
  void destroy() {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check(cudaGraphExecDestroy(executable_), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph_), "cudaGraphDestroy");
  }
  std::size_t nodes() const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    return count;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

void probe(const std::string& library, Steps& steps) {
  lockstep::set_nccl_variables();
  const Nccl* nccl = nullptr;
  steps.run("NCCL is opened", [&] {
    nccl = &lockstep::open_nccl(library);
    const int found = lockstep::checked_version(*nccl, lockstep::nccl_name(library));
    return fmt::format("version {}, built against {}",
                       lockstep::version_text(found),
                       lockstep::version_text(NCCL_VERSION_CODE));
  });
  steps.run("the device answers", [] {
    check(cudaSetDevice(0), "cudaSetDevice");
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    return std::string(properties.name);
  });
  Part first(*nccl), second(*nccl);
  std::size_t free_before = 0, free_joined = 0, total = 0;
  check(cudaMemGetInfo(&free_before, &total), "cudaMemGetInfo");
  steps.run("a communicator joins without blocking", [&] { return first.join(), ""; });
  steps.run("a second communicator is split from it", [&] { return second.split_from(first), ""; });
  steps.run("an all-gather, and a send and receive to itself", [&] {
    first.fill(1);
    second.fill(2);
    first.all_gather();
    second.send_to_itself();
    first.expect(1, "all-gather");
    second.expect(2, "send and receive");
    check(cudaMemGetInfo(&free_joined, &total), "cudaMemGetInfo");
    return fmt::format("both communicators take {} MiB of the device",
                       (free_before - free_joined) >> 20);
  });
  std::vector<Captured> graphs;
  steps.run("both are captured as one graph",
            [&] { return fmt::format("{} nodes", graphs.emplace_back(first, second).nodes()); });
  steps.run("the graph is replayed", [&] {
    for (int replay = 0; replay < kReplays; ++replay) {
      first.fill(float(10 + replay));
      second.fill(float(20 + replay));
      graphs[0].launch();
      first.expect(float(10 + replay), "replayed all-gather");
      second.expect(float(20 + replay), "replayed send and receive");
    }
    return fmt::format("{} times", kReplays);
  });
  steps.run("the graph and a communicator are destroyed", [&] {
    graphs[0].destroy();
    first.destroy();
    return "";
  });
  steps.run("the other communicator is aborted", [&] { return second.abort(), ""; });
}

}  // namespace

int run_nccl_probe(int argc, char** argv) {
  std::string library;
  int step_seconds = 60;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--library" && *value != 0) {
      library = value;
    } else if (option == "--step-seconds" && std::atoi(value) > 0) {
      step_seconds = std::atoi(value);
    } else {
      std::fprintf(stderr, "usage: nccl_probe [--library FILE] [--step-seconds N]\n");
      return 2;
    }
  }
  Steps steps(step_seconds);
  std::string fault;
  try {
    probe(library, steps);
  } catch (const lockstep::Error& error) {
    fault = fmt::format("{} (hint: {})", error.what(), error.hint());
  } catch (const std::exception& error) {
    fault = error.what();
  }
  alarm(0);
  if (!fault.empty()) std::printf("FAILED: %s: %s\n", steps.name(), fault.c_str());
  std::printf("result: %d of %d steps%s%s\n",
              steps.done(),
              kSteps,
              fault.empty() ? "" : "; failed: ",
              fault.empty() ? "" : steps.name());
  std::fflush(stdout);
  // Without what libraries do at exit, which may wait for a communicator that failed.
  _exit(fault.empty() ? 0 : 1);
}
