// SPDX-License-Identifier: Apache-2.0
// Whether cuDNN has kernels for our descriptions of attention on an H100 and an A100: it is asked
// without a device, for one whose properties are given. It compiles the kernels as well, and ends
// where it would load them, as the driver is the toolkit's stub.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/libraries/cudnn/attention_graph.h"
#include "kernels/cuda/libraries/cudnn/cudnn_choice.h"

// From cuDNN 9.8 on plans are made without a device; tried from 9.11 on.
#if CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 >= 91100

namespace lockstep::cuda {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Properties {
  const char* name;
  int version, multiprocessors, shared_memory;
};
constexpr Properties kA100{"NVIDIA A100-SXM4-80GB", 800, 108, 166912};
constexpr Properties kH100{"NVIDIA H100 80GB HBM3", 900, 132, 232448};

/// As cuDNN 9.28 writes, and 9.19 takes, a device's; not documented.
std::string json_of(const Properties& p) {
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("regsPerBlock":65536,"multiProcessorCount":{},"smCountOrigin":0,"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},)"
      R"("oversizedSharedMemoryPerBlock":{},"reservedSharedMemoryPerBlock":1024,)"
      R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
      R"("smClockRateKHz":1400000,"memClockRateKHz":1600000,"memoryBusWidth":5120,"l2CacheSize":41943040,)"
      R"("deviceName":"{}","deviceVer":{},"driverVer":13000,"totalGlobalMem":85000000000,)"
      R"("cudaDeviceId":0}})",
      p.multiprocessors,
      p.shared_memory,
      p.shared_memory,
      p.name,
      p.version);
}

class CudnnPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    if (compiler().file.empty()) GTEST_SKIP() << compiler().why_none;
    try {
      cudnn();
    } catch (const EnvironmentError& error) {
      GTEST_SKIP() << error.what();
    }
    if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) return;
    if (dlopen(LOCKSTEP_CUDA_DRIVER_STUB, RTLD_NOW) == nullptr)
      GTEST_SKIP() << "no driver, and no stub of one: " << dlerror();
  }

  /// What cuDNN proposes for `spec` on a device: configurations of engines that are acceptable and
  /// take it.
  std::vector<CudnnDescriptor> proposals(const Properties& properties,
                                         const FusedAttentionSpec& spec) {
    const std::string what = "h.0.attn", json = json_of(properties);
    CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, what);
    device.set(
        CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json.size(), json.data());
    device.finalize();
    CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what);
    std::vector<cudnnBackendDescriptor_t> listed;
    for (const CudnnDescriptor& operation : describe_attention(spec, cut_of(spec), what)) {
      listed.push_back(operation.get());
      graph.keep(operation);
    }
    graph.set(
        CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, listed.size(), listed.data());
    graph.finalize();
    CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    heuristic.finalize();
    std::vector<CudnnDescriptor> configurations;
    std::vector<cudnnBackendDescriptor_t> filled;
    for (int i = 0; i < 8; ++i) {
      configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what);
      filled.push_back(configurations.back().get());
    }
    const std::int64_t found = heuristic.get(
        CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, filled.size(), filled.data());
    std::vector<CudnnDescriptor> result;
    for (std::int64_t i = 0; i < found; ++i) {
      CudnnDescriptor proposed(CUDNN_BACKEND_ENGINE_DESCRIPTOR, what);
      cudnnBackendDescriptor_t pointer = proposed.get();
      configurations[std::size_t(i)].get(
          CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &pointer);
      std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
      notes.resize(std::size_t(proposed.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                            CUDNN_TYPE_NUMERICAL_NOTE,
                                            notes.size(),
                                            notes.data())));
      if (!is_acceptable(notes, /*rounded_factors=*/true)) continue;
      CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, what);
      engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
      engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                 proposed.get_int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
      engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, device);
      if (!engine.finalize_or_reason().empty()) continue;
      result.push_back(configurations[std::size_t(i)]);
      result.back().keep(graph);
      result.back().keep(device);
    }
    return result;
  }
};

TEST_F(CudnnPlans, AreThereForAttention) {
  for (const Properties& device : {kA100, kH100})
    for (const auto pass : {AttentionPass::forward, AttentionPass::backward})
      for (const bool causal : {true, false})
        for (const std::int64_t tokens : {1000, 1024}) {
          const FusedAttentionSpec spec{.pass = pass,
                                        .samples = 64,
                                        .tokens = tokens,
                                        .heads = 12,
                                        .depth = 64,
                                        .causal = causal};
          EXPECT_FALSE(proposals(device, spec).empty())
              << device.name << (pass == AttentionPass::forward ? " forward" : " backward")
              << (causal ? " causal " : " ") << tokens;
        }
}

TEST_F(CudnnPlans, OfAttentionAreCompiledUpToTheDriver) {
  for (const auto pass : {AttentionPass::forward, AttentionPass::backward}) {
    const FusedAttentionSpec spec{
        .pass = pass, .samples = 2, .tokens = 1024, .heads = 12, .depth = 64, .causal = true};
    const auto found = proposals(kH100, spec);
    ASSERT_FALSE(found.empty());
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "h.0.attn");
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, found[0]);
    EXPECT_THAT(plan.finalize_or_reason(),
                AnyOf("", HasSubstr("CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER")));
  }
}

}  // namespace
}  // namespace lockstep::cuda

#endif
