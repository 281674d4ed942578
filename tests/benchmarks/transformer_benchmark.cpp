// SPDX-License-Identifier: Apache-2.0
// Every operator of a transformer in the sizes of nanoGPT on a CPU (4 layers, 4 heads, width 128,
// 64 tokens) and of GPT-2 124M (12 heads, width 768, 1024 tokens): the shortest of several timings,
// GFLOP/s by the operator's own count and GB/s of the bytes that it must move.
//
// usage: transformer_benchmark [PART_OF_A_NAME]
#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>

#include "core/base/random.h"
#include "core/ops/attention.h"
#include "core/ops/embedding.h"
#include "core/ops/gelu.h"
#include "core/ops/layer_norm.h"
#include "core/ops/linear.h"
#include "core/ops/softmax_cross_entropy.h"
#include "kernels/cpu/cpu_backend.h"

namespace lockstep {
namespace {

/// CPU time of this thread: what neighbours take from it does not count.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

class Bench {
 public:
  Bench(Backend& backend, std::string filter) : backend_(backend), filter_(std::move(filter)) {
    fmt::print("{:44} {:>11} {:>9} {:>8}\n", "operator", "us", "GFLOP/s", "GB/s");
  }

  /// Integers are drawn below `bound`.
  void run(const std::string& name,
           const Operator& op,
           const std::vector<TensorType>& inputs,
           std::uint32_t bound = 1) {
    if (name.find(filter_) == std::string::npos) return;
    KernelSpec spec{op, inputs, op.infer(inputs), "benchmark", {}, {}};
    spec.input_parameter.assign(inputs.size(), 0);
    spec.output_accumulates.assign(spec.outputs.size(), false);
    const std::unique_ptr<Kernel> kernel = backend_.make_kernel(spec);
    KernelBuffers buffers;
    for (const TensorType& type : spec.inputs) buffers.inputs.push_back(memory(type, bound));
    for (const TensorType& type : spec.outputs) buffers.outputs.push_back(memory(type, bound));
    buffers.workspace = bytes(kernel->workspace_bytes());
    for (const PackedCopy& copy : kernel->packed_copies())
      buffers.packed.push_back(bytes(copy.bytes));
    kernel->bind(buffers);
    for (std::size_t i = 0; i < buffers.packed.size(); ++i) kernel->pack(int(i));

    const double seconds = shortest([&] { kernel->run({}); });
    const Cost cost = op.cost(spec.inputs, spec.outputs);
    fmt::print("{:44} {:11.2f} {:9.1f} {:8.1f}\n",
               name,
               seconds * 1e6,
               cost.flops / seconds * 1e-9,
               cost.bytes / seconds * 1e-9);
    std::fflush(stdout);
    memory_.clear();
  }

 private:
  template <typename Call>
  static double shortest(Call call) {
    constexpr double kTiming = 0.01;  // seconds a timing takes at least
    constexpr int kTimings = 15;
    call();
    const double start = now();
    call();
    const int calls = std::max(1, int(kTiming / std::max(now() - start, 1e-9)));
    double best = 1e9;
    for (int timing = 0; timing < kTimings; ++timing) {
      const double begin = now();
      for (int i = 0; i < calls; ++i) call();
      best = std::min(best, (now() - begin) / calls);
    }
    return best;
  }

  void* bytes(std::size_t count) {
    memory_.push_back(backend_.allocate(count, "benchmark"));
    return memory_.back()->data();
  }
  void* memory(const TensorType& type, std::uint32_t bound) {
    void* const data = bytes(type.bytes());
    RandomStream stream(1, memory_.size());
    for (std::int64_t i = 0; i < type.elems(); ++i)
      if (type.dtype == DType::f32)
        static_cast<float*>(data)[i] = stream.uniform(-1, 1);
      else
        static_cast<std::int32_t*>(data)[i] = std::int32_t(stream.below(bound));
    return data;
  }

  Backend& backend_;
  std::string filter_;
  std::vector<std::unique_ptr<DeviceBuffer>> memory_;
};

TensorType f32(const Shape& shape) { return {shape, DType::f32}; }

struct Model {
  std::string name;
  std::int64_t samples, tokens, width, vocabulary;
  int heads;
};

void add_linear(Bench& bench, const Model& m, std::int64_t in, std::int64_t out) {
  const std::string name = fmt::format("{} {}x{}->{}", m.name, m.samples * m.tokens, in, out);
  const TensorType x = f32({m.samples, m.tokens, in}), w = f32({out, in}),
                   y = f32({m.samples, m.tokens, out});
  bench.run("linear " + name, ops::Linear(false), {x, w});
  bench.run("linear_bwd_data " + name, ops::LinearBwdData(), {y, w});
  bench.run("linear_bwd_weights " + name, ops::LinearBwdWeights(false), {x, y});
}

void add_attention(Bench& bench, const Model& m) {
  const std::string name = fmt::format("{} {}x{}", m.name, m.samples, m.tokens);
  const TensorType qkv = f32({m.samples, m.tokens, 3 * m.width});
  const TensorType y = f32({m.samples, m.tokens, m.width}),
                   lse = f32({m.samples, m.heads, m.tokens});
  for (float dropout : {0.0f, 0.1f}) {
    const ops::AttentionAttrs attrs{.heads = m.heads, .causal = true, .dropout = dropout};
    const std::string what = dropout > 0 ? "dropout " + name : name;
    bench.run("attention " + what, ops::Attention(attrs), {qkv});
    bench.run("attention_bwd " + what, ops::AttentionBwd(attrs), {qkv, y, y, lse});
  }
}

void add_elementwise(Bench& bench, const Model& m) {
  const std::string name = fmt::format("{} {}x{}", m.name, m.samples, m.tokens);
  const TensorType tokens{{m.samples, m.tokens}, DType::i32},
      x = f32({m.samples, m.tokens, m.width}), c = f32({m.width});
  const TensorType wide = f32({m.samples, m.tokens, 4 * m.width});
  const TensorType saved = f32({m.samples * m.tokens, 2});
  const auto vocabulary = std::uint32_t(m.vocabulary);
  bench.run("embedding " + name,
            ops::Embedding(true),
            {tokens, f32({m.vocabulary, m.width}), f32({m.tokens, m.width})},
            vocabulary);
  bench.run("embedding_bwd_tokens " + name,
            ops::EmbeddingBwdTokens(m.vocabulary),
            {tokens, x},
            vocabulary);
  bench.run("embedding_bwd_positions " + name, ops::EmbeddingBwdPositions(m.tokens), {x});
  bench.run("layer_norm " + name, ops::LayerNorm(1e-5f, true, false), {x, c, c});
  bench.run("layer_norm residual " + name, ops::LayerNorm(1e-5f, true, true), {x, c, c, x});
  bench.run("layer_norm_bwd " + name, ops::LayerNormBwd(true, false), {x, x, c, saved});
  bench.run("layer_norm_bwd residual " + name, ops::LayerNormBwd(true, true), {x, x, c, saved, x});
  for (ops::GeluKind kind : {ops::GeluKind::erf, ops::GeluKind::tanh}) {
    const std::string what = fmt::format("{} {}", ops::name_of(kind), name);
    bench.run("gelu " + what, ops::Gelu(kind), {wide});
    bench.run("gelu_bwd " + what, ops::GeluBwd(kind), {wide, wide});
  }
  bench.run("softmax_cross_entropy " + name,
            ops::SoftmaxCrossEntropy(0.0f, true, -1),
            {f32({m.samples, m.tokens, m.vocabulary}), tokens, f32({1})},
            vocabulary);
}

void add_model(Bench& bench, const Model& m) {
  add_attention(bench, m);
  add_elementwise(bench, m);
  add_linear(bench, m, m.width, 3 * m.width);
  add_linear(bench, m, m.width, m.width);
  add_linear(bench, m, m.width, 4 * m.width);
  add_linear(bench, m, 4 * m.width, m.width);
  if (m.vocabulary < 1000) add_linear(bench, m, m.width, m.vocabulary);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const auto backend = lockstep::make_cpu_backend();
  fmt::print("{}\n", backend->device_class());
  lockstep::Bench bench(*backend, argc > 1 ? argv[1] : "");
  for (std::int64_t samples : {3, 6}) lockstep::add_model(bench, {"nano", samples, 64, 128, 65, 4});
  lockstep::add_model(bench, {"gpt2", 1, 1024, 768, 50257, 12});
  return 0;
}
