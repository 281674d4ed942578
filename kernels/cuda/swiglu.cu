// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/swiglu.h"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_list.h"

// map() of elementwise.cuh, and one pass that gives both gradients. Bytes: each tensor once, three
// forward and five backward. About 25 instructions an element: bound by memory.
namespace lockstep::cuda {
namespace {

/// 1 / (1 + e^-x), and 1 less that without cancellation. T: what the operands are stored as.
template <typename T>
struct Logistic {
  float value, rest;
  __device__ explicit Logistic(float x) {
    const float e = exp_for<T>(-fabsf(x));
    const float inverse = reciprocal_for<T>(1.0f + e), small = e * inverse;
    value = x < 0.0f ? small : inverse;
    rest = x < 0.0f ? inverse : small;
  }
};

template <typename T>
struct Gate {
  __device__ float operator()(float gate, float up) const {
    return gate * Logistic<T>(gate).value * up;
  }
};

template <typename T>
struct GateGradients {
  float gate, up;
  __device__ GateGradients(float dy, float g, float u) {
    const Logistic<T> s(g);
    const float silu = g * s.value;
    gate = dy * u * fmaf(silu, s.rest, s.value);
    up = dy * silu;
  }
};

/// dgate may be gate, dup may be up.
template <typename T>
__global__ void swiglu_bwd_kernel(
    T* dgate, T* dup, const T* dy, const T* gate, const T* up, std::int64_t elems) {
  wait_for_earlier_work();
  constexpr int kElems = Pack<T>::kElems;
  const std::int64_t packs = elems / kElems;
  for (std::int64_t p = global_thread(); p < packs; p += all_threads()) {
    const std::int64_t at = p * kElems;
    const Pack<T> d = load_pack(dy + at), g = load_pack(gate + at), u = load_pack(up + at);
    Pack<T> of_gate, of_up;
    for (int i = 0; i < kElems; ++i) {
      const GateGradients<T> result(
          to_float(d.values[i]), to_float(g.values[i]), to_float(u.values[i]));
      of_gate.values[i] = from_float<T>(result.gate);
      of_up.values[i] = from_float<T>(result.up);
    }
    store_pack(dgate + at, of_gate);
    store_pack(dup + at, of_up);
  }
  for (std::int64_t i = packs * kElems + global_thread(); i < elems; i += all_threads()) {
    const GateGradients<T> result(to_float(dy[i]), to_float(gate[i]), to_float(up[i]));
    dgate[i] = from_float<T>(result.gate);
    dup[i] = from_float<T>(result.up);
  }
}

template <typename T>
class SwigluKernel final : public BoundKernel {
 public:
  SwigluKernel(std::int64_t elems, const Device& device) : BoundKernel(device), elems_(elems) {}
  void run(const RunState&) override {
    map("swiglu", Gate<T>{}, output<T>(0), elems_, stream(), input<T>(0), input<T>(1));
  }

 private:
  std::int64_t elems_;
};

template <typename T>
class SwigluBwdKernel final : public BoundKernel {
 public:
  SwigluBwdKernel(std::int64_t elems, const Device& device) : BoundKernel(device), elems_(elems) {}
  void run(const RunState&) override {
    launch("swiglu_bwd",
           cover(ceil_div(elems_, Pack<T>::kElems)),
           stream(),
           swiglu_bwd_kernel<T>,
           output<T>(0),
           output<T>(1),
           input<T>(0),
           input<T>(1),
           input<T>(2),
           elems_);
  }

 private:
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_swiglu_kernel(const ops::Swiglu&,
                                           const KernelSpec& spec,
                                           const Device& device) {
  return make_stored<SwigluKernel>(spec.inputs[0].dtype, spec.inputs[0].elems(), device);
}

std::unique_ptr<Kernel> make_swiglu_bwd_kernel(const ops::SwigluBwd&,
                                               const KernelSpec& spec,
                                               const Device& device) {
  return make_stored<SwigluBwdKernel>(spec.inputs[0].dtype, spec.inputs[0].elems(), device);
}

}  // namespace lockstep::cuda
