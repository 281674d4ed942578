// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/algorithm_key.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

const char* tf32_text(const Device& device, DType factors) {
  return device.tf32 && factors == DType::f32 ? ", tf32" : "";
}

const char* name_of_pass(ConvolutionPass pass) {
  return pass == ConvolutionPass::forward         ? "forward"
         : pass == ConvolutionPass::data_gradient ? "data gradient"
                                                  : "weight gradient";
}

const char* name_of_epilogue(MatrixEpilogue epilogue) {
  switch (epilogue) {
    case MatrixEpilogue::none:
      return "none";
    case MatrixEpilogue::bias:
      return "bias";
    case MatrixEpilogue::bias_gelu_tanh:
      return "bias_gelu_tanh";
    case MatrixEpilogue::bias_gelu_tanh_kept:
      return "bias_gelu_tanh_kept";
    case MatrixEpilogue::gelu_tanh_gradient:
      return "gelu_tanh_gradient";
  }
  return "";
}

}  // namespace

std::string algorithm_key(const Device& device, const MatrixProductSpec& spec) {
  return fmt::format("product {}x{}x{}{} pitch {} {}{} {} -> {}, {}{}",
                     spec.m,
                     spec.n,
                     spec.k,
                     spec.parts > 1 ? fmt::format(" in {} parts", spec.parts) : "",
                     spec.a_pitch,
                     spec.transpose_a ? 't' : 'n',
                     spec.transpose_b ? 't' : 'n',
                     name_of(spec.factors),
                     name_of(spec.result),
                     name_of_epilogue(spec.epilogue),
                     tf32_text(device, spec.factors));
}

std::string algorithm_key(const Device& device, const ConvolutionSpec& spec) {
  return fmt::format(
      "convolution {} x {}x{}x{}x{} y {}x{}x{} window {}x{} stride {}x{} padding {}x{} groups {} "
      "{} -> {}{}{}",
      name_of_pass(spec.pass),
      spec.n,
      spec.h,
      spec.w,
      spec.c,
      spec.out_h,
      spec.out_w,
      spec.k,
      spec.kernel_h,
      spec.kernel_w,
      spec.stride_h,
      spec.stride_w,
      spec.padding_h,
      spec.padding_w,
      spec.groups,
      name_of(spec.type),
      name_of(spec.result),
      spec.bias ? ", bias" : "",
      tf32_text(device, spec.type));
}

std::string algorithm_key(const Device&, const FusedAttentionSpec& spec) {
  return fmt::format("attention {} {}x{} heads {} of {} bf16{}",
                     spec.pass == AttentionPass::forward ? "forward" : "backward",
                     spec.samples,
                     spec.tokens,
                     spec.heads,
                     spec.depth,
                     spec.causal ? ", causal" : "");
}

void throw_cannot_follow(const std::string& what,
                         const std::string& algorithm,
                         const std::string& why) {
  throw EnvironmentError(
      fmt::format(
          "{}: rank 0 chose {} for it, which this rank cannot run: {}", what, algorithm, why),
      "all ranks need GPUs of one model and libraries of one version (lockstep doctor compares "
      "them)");
}

}  // namespace lockstep::cuda
