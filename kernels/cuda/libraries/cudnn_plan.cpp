// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_plan.h"

#include <algorithm>

namespace lockstep::cuda {
namespace {

constexpr std::int64_t kMostPlanWorkspace = std::int64_t(256) << 20;

/// What is known of the numbers that an engine computes.
std::vector<cudnnBackendNumericalNote_t> numerical_notes(const CudnnDescriptor& configuration,
                                                         const std::string& what) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, what);
  cudnnBackendDescriptor_t filled = engine.get();
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &filled);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const std::int64_t count = engine.get(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), notes.data());
  notes.resize(std::size_t(count));
  return notes;
}

bool is_acceptable(const std::vector<cudnnBackendNumericalNote_t>& notes, bool rounded_factors) {
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return !rounded_factors;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default:
        return true;
    }
  });
}

/// cuDNN's proposals, the fastest first.
std::vector<CudnnDescriptor> configurations(const CudnnDescriptor& graph,
                                            cudnnBackendHeurMode_t mode,
                                            const std::string& what) {
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  std::vector<CudnnDescriptor> results;
  if (!heuristic.finalize_if_supported()) return results;
  std::vector<cudnnBackendDescriptor_t> filled;
  for (std::int64_t left =
           heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
       left > 0;
       --left) {
    results.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what);
    results.back().keep(graph);
    filled.push_back(results.back().get());
  }
  const std::int64_t found = heuristic.get(
      CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, filled.size(), filled.data());
  results.erase(results.begin() + std::min<std::ptrdiff_t>(found, std::ssize(results)),
                results.end());
  return results;
}

/// Null where the proposal turns out not to work, or wants too much memory.
std::unique_ptr<CudnnPlan> plan_for(cudnnHandle_t handle,
                                    const CudnnDescriptor& configuration,
                                    const std::string& what) {
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  // Only what cuDNN does not support leads to another proposal: where memory lacks or a kernel does
  // not compile on one rank alone, going on would give it other bits than the others.
  if (!plan.finalize_if_supported()) return nullptr;
  const std::int64_t workspace = plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (workspace > kMostPlanWorkspace) return nullptr;
  return std::make_unique<CudnnPlan>(CudnnPlan{std::move(plan), std::size_t(workspace)});
}

}  // namespace

std::unique_ptr<CudnnPlan> choose_plan(cudnnHandle_t handle,
                                       const std::vector<CudnnDescriptor>& operations,
                                       bool rounded_factors,
                                       const std::string& what) {
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what);
  std::vector<cudnnBackendDescriptor_t> listed;
  for (const CudnnDescriptor& operation : operations) {
    listed.push_back(operation.get());
    graph.keep(operation);
  }
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set(
      CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, listed.size(), listed.data());
  if (!graph.finalize_if_supported()) return nullptr;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const CudnnDescriptor& configuration : configurations(graph, mode, what))
      if (is_acceptable(numerical_notes(configuration, what), rounded_factors))
        if (auto plan = plan_for(handle, configuration, what)) return plan;
  return nullptr;
}

}  // namespace lockstep::cuda
