// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/linear/product_helpers.h"

// Convolutions of one to seven channels in bf16, such as a network's first: as one of eight, whose
// other channels are zeros, in the workspace. cuDNN 9.19 on an H200 takes 24 us for 44 with 3 x 3
// windows on 128 images of 32 x 32, padding included, and 54 for 57 for the weight gradient. With
// 7 x 7 windows on 256 images of 224 x 224 forward would take 1.83 ms for 1.77, and is left alone;
// the weight gradient takes 0.99 for 1.12. Bytes: x once, and eight channels of it written and
// read. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr int kChannels = Pack<Bf16>::kElems;
/// Elements of a window, at most.
constexpr std::int64_t kForwardWindow = 9;

/// to: [rows, kChannels], of which the first `channels` are those of from: [rows, channels].
__global__ void pad_channels_kernel(Bf16* to, const Bf16* from, std::int64_t rows, int channels) {
  wait_for_earlier_work();
  for (std::int64_t row = global_thread(); row < rows; row += all_threads()) {
    Group<Bf16, kChannels> group;
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      group.values[i] = i < channels ? from[row * channels + i] : from_float<Bf16>(0.0f);
    store_group(to + row * kChannels, group);
  }
}

/// to: [rows, channels], the first of from: [rows, kChannels].
__global__ void drop_channels_kernel(Bf16* to, const Bf16* from, std::int64_t rows, int channels) {
  wait_for_earlier_work();
  for (std::int64_t e = global_thread(); e < rows * channels; e += all_threads())
    to[e] = from[e / channels * kChannels + e % channels];
}

class PaddedConvolution final : public Convolution {
 public:
  PaddedConvolution(const Device& device,
                    const ConvolutionSpec& spec,
                    std::unique_ptr<Convolution> padded)
      : stream_(device.compute), spec_(spec), padded_(std::move(padded)) {}

  std::size_t workspace_bytes() const override {
    return weight_offset() + padded_bytes(rows_of_weight());
  }

  void run(const ConvolutionArguments& arguments) override {
    check_workspace(arguments.workspace, workspace_bytes());
    auto* const workspace = static_cast<std::byte*>(arguments.workspace);
    ConvolutionArguments padded = arguments;
    padded.x = workspace + x_offset();
    padded.weight = workspace + weight_offset();
    if (padded_->workspace_bytes() == 0) padded.workspace = nullptr;
    pad(padded.x, arguments.x, rows_of_x());
    if (is_forward()) pad(padded.weight, arguments.weight, rows_of_weight());
    padded_->run(padded);
    if (is_forward()) return;
    launch("drop_channels",
           cover(rows_of_weight() * spec_.c),
           stream_,
           drop_channels_kernel,
           static_cast<Bf16*>(arguments.weight),
           static_cast<const Bf16*>(padded.weight),
           rows_of_weight(),
           int(spec_.c));
  }

 private:
  void pad(void* to, const void* from, std::int64_t rows) const {
    launch("pad_channels",
           cover(rows),
           stream_,
           pad_channels_kernel,
           static_cast<Bf16*>(to),
           static_cast<const Bf16*>(from),
           rows,
           int(spec_.c));
  }

  bool is_forward() const { return spec_.pass == ConvolutionPass::forward; }
  std::int64_t rows_of_x() const { return spec_.n * spec_.h * spec_.w; }
  std::int64_t rows_of_weight() const { return spec_.k * spec_.kernel_h * spec_.kernel_w; }
  static std::size_t padded_bytes(std::int64_t rows) {
    return aligned(std::size_t(rows) * kChannels * sizeof(Bf16));
  }
  std::size_t x_offset() const { return aligned(padded_->workspace_bytes()); }
  std::size_t weight_offset() const { return x_offset() + padded_bytes(rows_of_x()); }

  cudaStream_t stream_;
  ConvolutionSpec spec_;
  std::unique_ptr<Convolution> padded_;
};

}  // namespace

std::unique_ptr<Convolution> make_padded_convolution(const Device& device,
                                                     const ConvolutionSpec& spec,
                                                     const std::string& what) {
  const bool forward = spec.pass == ConvolutionPass::forward;
  if (spec.type != DType::bf16 || spec.result != DType::bf16 || spec.groups != 1 ||
      spec.c >= kChannels || spec.pass == ConvolutionPass::data_gradient ||
      (forward && spec.kernel_h * spec.kernel_w > kForwardWindow))
    return nullptr;
  ConvolutionSpec wider = spec;
  wider.c = kChannels;
  auto padded = make_convolution(device, wider, what);
  if (!padded) return nullptr;
  return std::make_unique<PaddedConvolution>(device, spec, std::move(padded));
}

}  // namespace lockstep::cuda
