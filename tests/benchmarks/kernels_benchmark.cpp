// SPDX-License-Identifier: Apache-2.0
// Matrix kernels one by one, in the shapes of the models: time a call and GFLOP/s. Weights are
// packed before the clock starts; `pack` cases time that. CPU time, so that a busy neighbour
// disturbs less.
#include <benchmark/benchmark.h>
#include <cstring>
#include <functional>
#include <string>

#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "kernels/cpu/cpu_backend.h"

namespace lockstep {
namespace {

/// A kernel with memory of its own, filled with small numbers.
class BoundKernel {
 public:
  BoundKernel(Backend& backend, const Operator& op, std::vector<TensorType> inputs)
      : spec_{op, std::move(inputs), {}, "benchmark", {}, {}} {
    spec_.outputs = op.infer(spec_.inputs);
    spec_.input_parameter.assign(spec_.inputs.size(), 0);
    spec_.output_accumulates.assign(spec_.outputs.size(), op.accumulates(0));
    kernel_ = backend.make_kernel(spec_);
    KernelBuffers buffers;
    for (const TensorType& type : spec_.inputs)
      buffers.inputs.push_back(memory(backend, type.bytes()));
    for (const TensorType& type : spec_.outputs)
      buffers.outputs.push_back(memory(backend, type.bytes()));
    buffers.workspace = memory(backend, kernel_->workspace_bytes());
    for (const PackedCopy& copy : kernel_->packed_copies())
      buffers.packed.push_back(memory(backend, copy.bytes));
    kernel_->bind(buffers);
    pack();
  }

  void pack() {
    for (std::size_t i = 0; i < kernel_->packed_copies().size(); ++i) kernel_->pack(int(i));
  }
  bool packs() const { return !kernel_->packed_copies().empty(); }
  void run() { kernel_->run(state_); }
  double flops() const { return spec_.op.cost(spec_.inputs, spec_.outputs).flops; }

 private:
  void* memory(Backend& backend, std::size_t bytes) {
    buffers_.push_back(backend.allocate(bytes, "benchmark"));
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i)
      buffers_.back()->as<float>()[i] = float(i % 13) * 0.1f - 0.5f;
    return buffers_.back()->data();
  }

  KernelSpec spec_;
  RunState state_{.accumulate = true};
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
};

void time(benchmark::State& state, const std::function<void()>& call, double flops) {
  for (auto _ : state) call();
  if (flops > 0)
    state.counters["GFLOP/s"] =
        benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void add_case(Backend& backend,
              const std::string& name,
              std::shared_ptr<const Operator> op,
              const std::vector<TensorType>& inputs,
              benchmark::TimeUnit unit) {
  benchmark::RegisterBenchmark(name.c_str(), [=, &backend](benchmark::State& state) {
    BoundKernel kernel(backend, *op, inputs);
    time(
        state, [&] { kernel.run(); }, kernel.flops());
  })->Unit(unit);
  if (op->kind() != OpKind::linear && op->kind() != OpKind::conv2d) return;
  benchmark::RegisterBenchmark((name + "/pack").c_str(), [=, &backend](benchmark::State& state) {
    BoundKernel kernel(backend, *op, inputs);
    if (!kernel.packs()) return state.SkipWithError("reads plain weights");
    time(
        state, [&] { kernel.pack(); }, 0);
  })->Unit(unit);
}

TensorType f32(const Shape& shape) { return {shape, DType::f32}; }

void add_linear(Backend& backend, std::int64_t samples, std::int64_t in, std::int64_t out) {
  const std::string name = fmt::format("{}x{}->{}", samples, in, out);
  const TensorType x = f32({samples, in}), w = f32({out, in}), b = f32({out}),
                   y = f32({samples, out});
  const auto add = [&](const char* kind, auto op, const std::vector<TensorType>& inputs) {
    add_case(backend, fmt::format("{}/{}", kind, name), op, inputs, benchmark::kNanosecond);
  };
  add("linear", std::make_shared<ops::Linear>(true), {x, w, b});
  add("linear_bwd_data", std::make_shared<ops::LinearBwdData>(), {y, w});
  add("linear_bwd_weights", std::make_shared<ops::LinearBwdWeights>(true), {x, y});
}

struct ConvSize {
  std::int64_t samples, image, in, out;
  int kernel, stride;
  bool bias;
};

void add_conv(Backend& backend, const ConvSize& c) {
  const ops::Conv2dAttrs attrs{.stride_h = c.stride,
                               .stride_w = c.stride,
                               .padding_h = c.kernel / 2,
                               .padding_w = c.kernel / 2,
                               .bias = c.bias};
  const std::string name =
      fmt::format("{}x{}->{}@{}/k{}s{}", c.samples, c.in, c.out, c.image, c.kernel, c.stride);
  const TensorType x = f32({c.samples, c.image, c.image, c.in});
  const TensorType w = f32({c.out, c.kernel, c.kernel, c.in});
  std::vector<TensorType> inputs{x, w};
  if (c.bias) inputs.push_back(f32({c.out}));
  const auto forward = std::make_shared<ops::Conv2d>(attrs);
  const TensorType y = forward->infer(inputs)[0];
  const auto add = [&](const char* kind, auto op, const std::vector<TensorType>& types) {
    add_case(backend, fmt::format("{}/{}", kind, name), op, types, benchmark::kMicrosecond);
  };
  add("conv2d", forward, inputs);
  if (c.in > 3)
    add("conv2d_bwd_data", std::make_shared<ops::Conv2dBwdData>(attrs, x.shape), {y, w});
  add("conv2d_bwd_weights", std::make_shared<ops::Conv2dBwdWeights>(attrs, w.shape), {x, y});
}

void add_all(Backend& backend) {
  // The iris network, the networks of compare_pytorch.py, the head of the convnet, wide layers.
  add_linear(backend, 120, 4, 10);
  add_linear(backend, 120, 10, 3);
  for (std::int64_t samples : {1, 32, 128}) {
    add_linear(backend, samples, 16, 64);
    add_linear(backend, samples, 64, 64);
    add_linear(backend, samples, 64, 10);
    add_linear(backend, samples, 784, 32);
    add_linear(backend, samples, 32, 10);
  }
  add_linear(backend, 32, 3136, 10);
  add_linear(backend, 64, 512, 512);
  add_linear(backend, 64, 2048, 2048);
  // The convnet at micro-batch 32, then resnet18 --stem cifar at 64.
  add_conv(backend, {32, 28, 1, 32, 3, 1, true});
  add_conv(backend, {32, 14, 32, 64, 3, 1, true});
  add_conv(backend, {64, 32, 3, 64, 3, 1, false});
  add_conv(backend, {64, 32, 64, 64, 3, 1, false});
  for (std::int64_t in = 64, image = 32; in < 512; in *= 2, image /= 2) {
    add_conv(backend, {64, image, in, 2 * in, 3, 2, false});
    add_conv(backend, {64, image, in, 2 * in, 1, 2, false});
    add_conv(backend, {64, image / 2, 2 * in, 2 * in, 3, 1, false});
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const auto backend = lockstep::make_cpu_backend();
  benchmark::AddCustomContext("device", backend->device_class());
  lockstep::add_all(*backend);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
