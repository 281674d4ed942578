// SPDX-License-Identifier: Apache-2.0
// The time that a ResNet's convolutions alone need: forward, backward data and backward weights of
// one micro-batch through oneDNN, every tensor in the layout that oneDNN likes best, no reorders,
// nothing else. No program that trains this network through these convolutions can take less. Set
// OMP_NUM_THREADS=1; run one process per rank at once.
//
//   conv_ceiling [MICRO_BATCH [IMAGE_SIZE [CHANNELS [REPETITIONS [PRECISION [NETWORK]]]]]]
//                 64           32          3         20           fp32       resnet18-cifar
//
// NETWORK is resnet18-cifar (3x3 stride-1 stem, no max-pool) or resnet50.
// With bf16 as PRECISION activations, their gradients and weights are bf16, weight gradients fp32.
//
// Prints "ms_per_step <median> gflops_per_s <rate>".
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/onednn/dnnl_versions.h"
#include "tests/benchmarks/conv_layers.h"

namespace {

using dnnl::memory;
using lockstep::benchmarks::ConvLayer;

struct Execution {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
};

class Network {
 public:
  Network(const std::vector<ConvLayer>& layers, int batch, memory::data_type type)
      : engine_(dnnl::engine::kind::cpu, 0), type_(type) {
    for (const ConvLayer& layer : layers) add(layer, batch, &layer == &layers.front());
    std::reverse(backward_.begin(), backward_.end());
  }

  double run_ms(dnnl::stream& stream) {
    const auto start = std::chrono::steady_clock::now();
    for (const auto* phase : {&forward_, &backward_})
      for (const Execution& e : *phase) e.primitive.execute(stream, e.arguments);
    stream.wait();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

  dnnl::engine& engine() { return engine_; }
  double flops() const { return flops_; }

 private:
  static memory::desc any(const memory::dims& dims, memory::data_type type) {
    return {dims, type, memory::format_tag::any};
  }
  memory allocate(const memory::desc& desc) {
    memory result(desc, engine_);
    // Not zero, and small enough never to overflow or to become denormal.
    const auto value = [](std::size_t i) { return 0.01f * float(i % 7); };
    void* data = result.get_data_handle();
    if (lockstep::dnnl_versions::type_of(desc) == memory::data_type::f32)
      for (std::size_t i = 0; i < desc.get_size() / sizeof(float); ++i)
        static_cast<float*>(data)[i] = value(i);
    else
      for (std::size_t i = 0; i < desc.get_size() / sizeof(std::uint16_t); ++i)
        static_cast<std::uint16_t*>(data)[i] =
            std::uint16_t(std::bit_cast<std::uint32_t>(value(i)) >> 16);
    return result;
  }

  void add(const ConvLayer& layer, int batch, bool first) {
    namespace dv = lockstep::dnnl_versions;
    const memory::dims strides{layer.stride, layer.stride};
    const memory::dims padding{layer.padding(), layer.padding()};
    const int out = layer.out_size();
    const auto x = any({batch, layer.in, layer.size, layer.size}, type_);
    const memory::dims w_dims{layer.out, layer.in, layer.kernel, layer.kernel};
    const auto w = any(w_dims, type_), dw = any(w_dims, memory::data_type::f32);
    const auto y = any({batch, layer.out, out, out}, type_);
    const auto forward =
        dv::conv_forward(engine_, {x, w, y, strides, padding}, nullptr, dnnl::primitive_attr());
    forward_.push_back({dnnl::convolution_forward(forward),
                        {{DNNL_ARG_SRC, allocate(forward.src_desc())},
                         {DNNL_ARG_WEIGHTS, allocate(forward.weights_desc())},
                         {DNNL_ARG_DST, allocate(forward.dst_desc())}}});
    const auto weights = dv::conv_backward_weights(
        engine_, {x, dw, y, strides, padding}, forward, dnnl::primitive_attr());
    const memory dy = allocate(weights.diff_dst_desc());
    Execution data;
    if (!first) {  // no rank needs the images' gradient
      const auto desc = dv::conv_backward_data(
          engine_, {x, w, y, strides, padding}, forward, dnnl::primitive_attr());
      const memory its_dy =
          desc.diff_dst_desc() == weights.diff_dst_desc() ? dy : allocate(desc.diff_dst_desc());
      data = {dnnl::convolution_backward_data(desc),
              {{DNNL_ARG_DIFF_DST, its_dy},
               {DNNL_ARG_WEIGHTS, allocate(desc.weights_desc())},
               {DNNL_ARG_DIFF_SRC, allocate(desc.diff_src_desc())}}};
      backward_.push_back(data);
    }
    backward_.push_back({dnnl::convolution_backward_weights(weights),
                         {{DNNL_ARG_SRC, allocate(weights.src_desc())},
                          {DNNL_ARG_DIFF_DST, dy},
                          {DNNL_ARG_DIFF_WEIGHTS, allocate(weights.diff_weights_desc())}}});
    flops_ += (first ? 2 : 3) * 2.0 * batch * layer.out * out * out * layer.in * layer.kernel *
              layer.kernel;
  }

  dnnl::engine engine_;
  memory::data_type type_;
  std::vector<Execution> forward_;
  std::vector<Execution> backward_;
  double flops_ = 0;
};

int argument(int argc, char** argv, int index, int fallback) {
  return argc > index ? std::max(1, std::atoi(argv[index])) : fallback;
}

}  // namespace

int main(int argc, char** argv) try {
  const int batch = argument(argc, argv, 1, 64), size = argument(argc, argv, 2, 32);
  const int channels = argument(argc, argv, 3, 3), repetitions = argument(argc, argv, 4, 20);
  const std::string precision = argc > 5 ? argv[5] : "fp32";
  if (precision != "fp32" && precision != "bf16")
    throw std::invalid_argument("the precision is fp32 or bf16, not " + precision);
  Network network(
      lockstep::benchmarks::conv_layers(argc > 6 ? argv[6] : "resnet18-cifar", size, channels),
      batch,
      precision == "bf16" ? memory::data_type::bf16 : memory::data_type::f32);
  dnnl::stream stream(network.engine());
  for (int i = 0; i < 2; ++i) network.run_ms(stream);
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) times.push_back(network.run_ms(stream));
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  const double median = times[std::size_t(repetitions / 2)];
  std::printf("ms_per_step %.3f gflops_per_s %.1f\n", median, network.flops() / median * 1e-6);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "conv_ceiling: %s\n", error.what());
  return 1;
}
