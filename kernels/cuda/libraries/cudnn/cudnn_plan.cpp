// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/cudnn_plan.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "kernels/cuda/device/algorithm_key.h"
#include "kernels/cuda/libraries/cudnn/cudnn_choice.h"

// A proposal of cuDNN's is taken apart into its engine and knobs and put together again, also where
// it was asked for: so every rank builds its plan the same way, from what can be sent.
namespace lockstep::cuda {
namespace {

/// A proposal whose engine is not looked at again once its choice is read.
struct Proposal {
  CudnnChoice choice;
  std::vector<cudnnBackendNumericalNote_t> notes;
};

/// A plan, or why cuDNN refuses it.
struct Attempt {
  std::optional<CudnnPlan> plan;
  std::string why_not;
};

std::optional<CudnnDescriptor> graph_of(cudnnHandle_t handle,
                                        const std::vector<CudnnDescriptor>& operations,
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
  if (!graph.finalize_if_supported()) return std::nullopt;
  return graph;
}

/// Knobs of a configuration, by type: the order in which cuDNN lists them is its own.
std::vector<std::pair<std::int64_t, std::int64_t>> knobs_of(const CudnnDescriptor& configuration,
                                                            const std::string& what) {
  std::vector<CudnnDescriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> filled;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, what);
    filled.push_back(knobs.back().get());
  }
  const std::int64_t count = configuration.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                               filled.size(),
                                               filled.data());
  std::vector<std::pair<std::int64_t, std::int64_t>> choices;
  for (std::int64_t i = 0; i < count; ++i) {
    const CudnnDescriptor& knob = knobs[std::size_t(i)];
    cudnnBackendKnobType_t type{};
    knob.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    choices.emplace_back(type, knob.get_int64(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  std::ranges::sort(choices);
  return choices;
}

Proposal read(const CudnnDescriptor& configuration, const std::string& what) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, what);
  cudnnBackendDescriptor_t filled = engine.get();
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &filled);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const std::int64_t count = engine.get(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), notes.data());
  notes.resize(std::size_t(count));
  return {{.engine = engine.get_int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
           .knobs = knobs_of(configuration, what),
           .workspace_bytes = 0},
          notes};
}

/// cuDNN's proposals, the fastest first.
std::vector<Proposal> proposals(const CudnnDescriptor& graph,
                                cudnnBackendHeurMode_t mode,
                                const std::string& what) {
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (!heuristic.finalize_if_supported()) return {};
  std::vector<CudnnDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> filled;
  for (std::int64_t left =
           heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
       left > 0;
       --left) {
    configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what);
    filled.push_back(configurations.back().get());
  }
  const std::int64_t found = heuristic.get(
      CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, filled.size(), filled.data());
  std::vector<Proposal> results;
  for (std::int64_t i = 0; i < std::min(found, std::ssize(configurations)); ++i)
    results.push_back(read(configurations[std::size_t(i)], what));
  return results;
}

Attempt build(cudnnHandle_t handle,
              const CudnnDescriptor& graph,
              const CudnnChoice& choice,
              const std::string& what) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, what);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  if (std::string why = engine.finalize_or_reason(); !why.empty()) return {{}, std::move(why)};

  CudnnDescriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what);
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::vector<cudnnBackendDescriptor_t> knobs;
  for (const auto& [number, value] : choice.knobs) {
    CudnnDescriptor knob(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, what);
    const auto type = cudnnBackendKnobType_t(number);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    if (std::string why = knob.finalize_or_reason(); !why.empty()) return {{}, std::move(why)};
    knobs.push_back(knob.get());
    configuration.keep(knob);
  }
  if (!knobs.empty())
    configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      knobs.size(),
                      knobs.data());
  if (std::string why = configuration.finalize_or_reason(); !why.empty())
    return {{}, std::move(why)};

  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (std::string why = plan.finalize_or_reason(); !why.empty()) return {{}, std::move(why)};
  const std::int64_t workspace = plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  return {CudnnPlan{std::move(plan), std::size_t(workspace)}, {}};
}

}  // namespace

PlanOffers offer_plans(cudnnHandle_t handle,
                       const std::vector<CudnnDescriptor>& operations,
                       bool rounded_factors,
                       const std::string& what,
                       std::size_t most) {
  PlanOffers offers;
  const auto graph = graph_of(handle, operations, what);
  if (!graph) {
    offers.why_none = "cuDNN does not support it";
    return offers;
  }
  int seen = 0, unacceptable = 0;
  std::string why_not;  // the first, of the fastest
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!offers.plans.empty()) break;  // what is slow needs no trial
    for (Proposal& proposal : proposals(*graph, mode, what)) {
      if (offers.plans.size() == most) break;
      ++seen;
      if (!is_acceptable(proposal.notes, rounded_factors)) {
        ++unacceptable;
        continue;
      }
      Attempt attempt = build(handle, *graph, proposal.choice, what);
      if (attempt.plan && std::int64_t(attempt.plan->workspace_bytes) > kMaxPlanWorkspace)
        attempt = {{}, fmt::format("it wants {} bytes", attempt.plan->workspace_bytes)};
      if (attempt.plan) {
        proposal.choice.workspace_bytes = std::int64_t(attempt.plan->workspace_bytes);
        offers.plans.push_back(std::move(*attempt.plan));
        offers.texts.push_back(to_text(proposal.choice));
      } else if (why_not.empty()) {
        why_not = fmt::format("; engine {}: {}", proposal.choice.engine, attempt.why_not);
      }
    }
  }
  if (offers.plans.empty())
    offers.why_none = fmt::format(
        "of its {} proposals, {} would not keep bits or rounding{}", seen, unacceptable, why_not);
  return offers;
}

ChosenPlan choose_plan(cudnnHandle_t handle,
                       const std::vector<CudnnDescriptor>& operations,
                       bool rounded_factors,
                       const std::string& what,
                       const PlanTrial& trial) {
  const auto none = [](std::string why) {
    return ChosenPlan{{}, {.text = "", .why_none = std::move(why)}};
  };
  PlanOffers offers =
      offer_plans(handle, operations, rounded_factors, what, trial ? kTriedPlans : 1);
  if (offers.plans.empty()) return none(std::move(offers.why_none));
  const std::optional<std::size_t> chosen = trial ? trial(offers.plans) : 0;
  if (!chosen)
    return none(fmt::format("{} plans store other bits in a second run", offers.plans.size()));
  return {std::move(offers.plans[*chosen]), {.text = offers.texts[*chosen], .why_none = ""}};
}

CudnnPlan build_plan(cudnnHandle_t handle,
                     const std::vector<CudnnDescriptor>& operations,
                     const std::string& choice,
                     const std::string& what) {
  const std::string name = "cuDNN's " + choice;
  const auto graph = graph_of(handle, operations, what);
  if (!graph) throw_cannot_follow(what, name, "cuDNN does not support it here");
  const CudnnChoice wanted = cudnn_choice(choice);
  Attempt attempt = build(handle, *graph, wanted, what);
  if (!attempt.plan) throw_cannot_follow(what, name, attempt.why_not);
  if (std::int64_t(attempt.plan->workspace_bytes) != wanted.workspace_bytes)
    throw_cannot_follow(
        what, name, fmt::format("it wants {} bytes here", attempt.plan->workspace_bytes));
  return std::move(*attempt.plan);
}

}  // namespace lockstep::cuda
