// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector_access.cuh"

// Convolutions as their formula, for windows, groups and channels that the library has no
// deterministic algorithm for. Forward and data gradient: a thread for each element of the result,
// which adds the products of its window in fp32. Weight gradient: a block for each element; each
// thread adds every 256th position of dy, then the block adds the threads' sums in the order of
// reduce.cuh. Bytes: every operand about as often as a window covers it, from the caches. Bound by
// the loads of the loop, far from tensor cores: right first.
namespace lockstep::cuda {
namespace {

/// An element of y, or a position of the window.
__device__ inline std::int64_t at(
    std::int64_t a, std::int64_t b, std::int64_t bs, std::int64_t c, std::int64_t cs) {
  return (a * bs + b) * cs + c;
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    direct_forward_kernel(ConvolutionSpec s, T* y, const T* x, const T* weight, const float* bias) {
  wait_for_earlier_work();
  const std::int64_t in = s.c / s.groups, out = s.k / s.groups;
  const std::int64_t elems = s.n * s.out_h * s.out_w * s.k;
  for (std::int64_t e = global_thread(); e < elems; e += all_threads()) {
    const std::int64_t o = e % s.k, q = e / s.k % s.out_w, p = e / s.k / s.out_w % s.out_h;
    const std::int64_t n = e / s.k / s.out_w / s.out_h, first = o / out * in;
    float sum = 0.0f;
    for (std::int64_t r = 0; r < s.kernel_h; ++r)
      for (std::int64_t t = 0; t < s.kernel_w; ++t) {
        const std::int64_t h = p * s.stride_h - s.padding_h + r;
        const std::int64_t w = q * s.stride_w - s.padding_w + t;
        if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
        const T* from = x + at(n, h, s.h, w, s.w) * s.c + first;
        const T* factors = weight + at(o, r, s.kernel_h, t, s.kernel_w) * in;
        for (std::int64_t i = 0; i < in; ++i)
          sum = fmaf(to_float(from[i]), to_float(factors[i]), sum);
      }
    y[e] = from_float<T>(bias != nullptr ? sum + bias[o] : sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    direct_data_gradient_kernel(ConvolutionSpec s, T* dx, const T* dy, const T* weight) {
  wait_for_earlier_work();
  const std::int64_t in = s.c / s.groups, out = s.k / s.groups;
  const std::int64_t elems = s.n * s.h * s.w * s.c;
  for (std::int64_t e = global_thread(); e < elems; e += all_threads()) {
    const std::int64_t c = e % s.c, w = e / s.c % s.w, h = e / s.c / s.w % s.h;
    const std::int64_t n = e / s.c / s.w / s.h, first = c / in * out;
    float sum = 0.0f;
    for (std::int64_t r = 0; r < s.kernel_h; ++r)
      for (std::int64_t t = 0; t < s.kernel_w; ++t) {
        const std::int64_t down = h + s.padding_h - r, right = w + s.padding_w - t;
        if (down < 0 || down % s.stride_h != 0 || right < 0 || right % s.stride_w != 0) continue;
        const std::int64_t p = down / s.stride_h, q = right / s.stride_w;
        if (p >= s.out_h || q >= s.out_w) continue;
        const T* from = dy + at(n, p, s.out_h, q, s.out_w) * s.k;
        for (std::int64_t o = first; o < first + out; ++o)
          sum = fmaf(to_float(from[o]),
                     to_float(weight[at(o, r, s.kernel_h, t, s.kernel_w) * in + c % in]),
                     sum);
      }
    dx[e] = from_float<T>(sum);
  }
}

template <typename T, typename Result>
__global__ void direct_weight_gradient_kernel(ConvolutionSpec s,
                                              Result* dweight,
                                              const T* x,
                                              const T* dy) {
  wait_for_earlier_work();
  const std::int64_t in = s.c / s.groups, out = s.k / s.groups;
  const std::int64_t elems = s.k * s.kernel_h * s.kernel_w * in;
  const std::int64_t positions = s.n * s.out_h * s.out_w;
  for (std::int64_t e = blockIdx.x; e < elems; e += gridDim.x) {
    const std::int64_t i = e % in, t = e / in % s.kernel_w, r = e / in / s.kernel_w % s.kernel_h;
    const std::int64_t o = e / in / s.kernel_w / s.kernel_h;
    float sum = 0.0f;
    for (std::int64_t position = threadIdx.x; position < positions; position += blockDim.x) {
      const std::int64_t q = position % s.out_w, p = position / s.out_w % s.out_h;
      const std::int64_t n = position / s.out_w / s.out_h;
      const std::int64_t h = p * s.stride_h - s.padding_h + r;
      const std::int64_t w = q * s.stride_w - s.padding_w + t;
      if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
      const T left = x[at(n, h, s.h, w, s.w) * s.c + o / out * in + i];
      sum = fmaf(to_float(left), to_float(dy[position * s.k + o]), sum);
    }
    sum = block_sum(sum, dynamic_shared<float>());
    if (threadIdx.x == 0) dweight[e] = from_float<Result>(sum);
  }
}

template <typename T>
class DirectConvolution final : public Convolution {
 public:
  DirectConvolution(const Device& device, const ConvolutionSpec& spec)
      : device_(device), spec_(spec) {}

  std::size_t workspace_bytes() const override { return 0; }

  void run(const ConvolutionArguments& arguments) override {
    T* x = static_cast<T*>(arguments.x);
    T* y = static_cast<T*>(arguments.y);
    T* weight = static_cast<T*>(arguments.weight);
    switch (spec_.pass) {
      case ConvolutionPass::forward:
        return launch("direct_convolution",
                      cover(spec_.n * spec_.out_h * spec_.out_w * spec_.k),
                      device_.compute,
                      direct_forward_kernel<T>,
                      spec_,
                      y,
                      x,
                      weight,
                      spec_.bias ? arguments.bias : nullptr);
      case ConvolutionPass::data_gradient:
        return launch("direct_convolution_data_gradient",
                      cover(spec_.n * spec_.h * spec_.w * spec_.c),
                      device_.compute,
                      direct_data_gradient_kernel<T>,
                      spec_,
                      x,
                      y,
                      weight);
      case ConvolutionPass::weight_gradient:
        if (spec_.result == DType::f32)
          return weight_gradient(static_cast<float*>(arguments.weight), x, y);
        return weight_gradient(weight, x, y);
    }
  }

 private:
  template <typename Result>
  void weight_gradient(Result* dweight, const T* x, const T* dy) {
    const std::int64_t elems = spec_.k * spec_.kernel_h * spec_.kernel_w * spec_.c / spec_.groups;
    launch("direct_convolution_weight_gradient",
           {.grid = dim3(unsigned(elems < (1 << 20) ? elems : 1 << 20)),
            .shared_bytes = kBlock / kWarp * sizeof(float)},
           device_.compute,
           direct_weight_gradient_kernel<T, Result>,
           spec_,
           dweight,
           x,
           dy);
  }

  const Device& device_;
  ConvolutionSpec spec_;
};

}  // namespace

std::unique_ptr<Convolution> make_direct_convolution(const Device& device,
                                                     const ConvolutionSpec& spec) {
  if (spec.type == DType::bf16) return std::make_unique<DirectConvolution<Bf16>>(device, spec);
  return std::make_unique<DirectConvolution<float>>(device, spec);
}

}  // namespace lockstep::cuda
