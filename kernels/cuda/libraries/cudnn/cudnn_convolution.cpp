// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/device/algorithm_key.h"
#include "kernels/cuda/libraries/cudnn/convolution_graph.h"
#include "kernels/cuda/libraries/cudnn/convolution_trial.h"
#include "kernels/cuda/libraries/cudnn/cudnn_plan.h"
#include "kernels/cuda/linear/product_helpers.h"

namespace lockstep::cuda {
namespace {

class CudnnConvolution final : public Convolution {
 public:
  CudnnConvolution(std::shared_ptr<cudnnContext> handle,
                   const CudnnPlan& plan,
                   bool bias,
                   const std::string& what)
      : what_(what), handle_(std::move(handle)), plan_(plan), bias_(bias) {}

  std::size_t workspace_bytes() const override { return plan_.workspace_bytes; }

  void run(const ConvolutionArguments& arguments) override {
    check_workspace(arguments.workspace, plan_.workspace_bytes);
    const CudnnDescriptor& pack = bound({arguments.x,
                                         arguments.weight,
                                         arguments.y,
                                         const_cast<float*>(arguments.bias),
                                         arguments.workspace});
    check(cudnn().cudnnBackendExecute(handle_.get(), plan_.plan.get(), pack.get()), what_);
  }

 private:
  using Pointers = std::array<void*, 5>;
  struct Pack {
    Pointers pointers;
    CudnnDescriptor descriptor;
  };

  /// A program's buffers stay where they are, but the gradient of a weight goes to one place where
  /// it accumulates and to another where it does not: both are kept.
  const CudnnDescriptor& bound(const Pointers& pointers) {
    for (const Pack& pack : packs_)
      if (pack.pointers == pointers) return pack.descriptor;
    constexpr std::size_t kPlaces = 2;
    if (packs_.size() == kPlaces) packs_.erase(packs_.begin());
    packs_.push_back({pointers, bind(pointers)});
    return packs_.back().descriptor;
  }

  CudnnDescriptor bind(const Pointers& pointers) const {
    const std::array<std::int64_t, 4> ids{kX, kWeight, kY, kBias};
    const std::size_t tensors = bias_ ? 4 : 3;
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, what_);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, tensors, ids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, tensors, pointers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &pointers[4]);
    pack.finalize();
    return pack;
  }

  std::string what_;
  std::shared_ptr<cudnnContext> handle_;
  CudnnPlan plan_;
  bool bias_;
  std::vector<Pack> packs_;
};

PlanTrial trial_of(const Device& device,
                   const std::shared_ptr<cudnnContext>& handle,
                   const ConvolutionSpec& spec,
                   const std::string& what) {
  return [&device, handle, &spec, &what](
             std::span<const CudnnPlan> plans) -> std::optional<std::size_t> {
    std::size_t workspace = 0;
    std::vector<std::unique_ptr<Convolution>> candidates;
    for (const CudnnPlan& plan : plans) {
      workspace = std::max(workspace, plan.workspace_bytes);
      candidates.push_back(std::make_unique<CudnnConvolution>(handle, plan, spec.bias, what));
    }
    if (!ConvolutionTrial::fits(spec, workspace)) return 0;
    const AlgorithmTimer timer(*device.algorithms);
    ConvolutionTrial trial(device, spec, std::move(candidates));
    const TrialResult result = try_candidates(plans.size(), trial);
    if (result.fastest.value_or(0) != 0) device.algorithms->note_other_choice();
    return result.fastest;
  };
}

}  // namespace

std::unique_ptr<Convolution> make_convolution(const Device& device,
                                              const ConvolutionSpec& spec,
                                              const std::string& what) {
  const auto handle = cudnn_handle(device);
  const bool rounded_factors = spec.type == DType::bf16 || device.tf32;
  std::optional<CudnnPlan> plan;
  const AlgorithmChoice& choice =
      device.algorithms->choice(algorithm_key(device, spec), [&]() -> AlgorithmChoice {
        try {
          const PlanTrial trial =
              device.times_algorithms ? trial_of(device, handle, spec, what) : PlanTrial();
          ChosenPlan chosen = choose_plan(
              handle.get(), describe_convolution(spec, what), rounded_factors, what, trial);
          plan = std::move(chosen.plan);
          return chosen.choice;
        } catch (const CudnnUnsupported&) {
          return {.text = "", .why_none = "cuDNN does not support it"};
        }
      });
  if (choice.text.empty()) return nullptr;
  if (!plan) plan = build_plan(handle.get(), describe_convolution(spec, what), choice.text, what);
  return std::make_unique<CudnnConvolution>(handle, *plan, spec.bias, what);
}

}  // namespace lockstep::cuda
