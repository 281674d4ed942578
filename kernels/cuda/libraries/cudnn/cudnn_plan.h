// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device/algorithm_cache.h"
#include "kernels/cuda/libraries/cudnn/cudnn_descriptor.h"

namespace lockstep::cuda {

/// What cuDNN executes: kernels with all their choices made.
struct CudnnPlan {
  CudnnDescriptor plan;
  std::size_t workspace_bytes = 0;
};

/// A plan, and the CudnnChoice that it stands for; or why there is none.
struct ChosenPlan {
  std::optional<CudnnPlan> plan;
  AlgorithmChoice choice;
};

/// No plan may want more workspace.
inline constexpr std::int64_t kMaxPlanWorkspace = std::int64_t(256) << 20;

/// Plans in cuDNN's order of expected speed, and the CudnnChoice that each stands for.
struct PlanOffers {
  std::vector<CudnnPlan> plans;
  std::vector<std::string> texts;
  std::string why_none;  ///< where there is none
};

/// The first `most` that can be had and are acceptable (is_acceptable()).
PlanOffers offer_plans(cudnnHandle_t handle,
                       const std::vector<CudnnDescriptor>& operations,
                       bool rounded_factors,
                       const std::string& what,
                       std::size_t most);

/// Chooses among plans, cuDNN's favourite first: its index, or nothing where none will do.
using PlanTrial = std::function<std::optional<std::size_t>(std::span<const CudnnPlan> plans)>;

/// The first of offer_plans(); with a `trial` the one that it chooses among the first kTriedPlans
/// of those.
ChosenPlan choose_plan(cudnnHandle_t handle,
                       const std::vector<CudnnDescriptor>& operations,
                       bool rounded_factors,
                       const std::string& what,
                       const PlanTrial& trial = {});
inline constexpr std::size_t kTriedPlans = 8;

/// The plan that `choice`, of choose_plan() here or on another rank, stands for. Throws
/// EnvironmentError: cuDNN does not build it here.
CudnnPlan build_plan(cudnnHandle_t handle,
                     const std::vector<CudnnDescriptor>& operations,
                     const std::string& choice,
                     const std::string& what);

}  // namespace lockstep::cuda
