// SPDX-License-Identifier: Apache-2.0
// Every operator of a transformer in the sizes of nanoGPT on a CPU (4 layers, 4 heads, width 128,
// 64 tokens) and of GPT-2 124M (12 heads, width 768, 1024 tokens): the shortest of several timings,
// GFLOP/s by the operator's own count, GB/s of the bytes that it must move, and the share of the
// roofline of peaks measured at the start.
//
// usage: transformer_benchmark [PART_OF_A_NAME]
#include <algorithm>
#include <string>

#include "core/ops/activations/gelu.h"
#include "core/ops/attention.h"
#include "core/ops/cast.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/linear.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "core/ops/norms/layer_norm.h"
#include "core/ops/scale.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/benchmarks/operator_run.h"

namespace lockstep {
namespace {

class Bench {
 public:
  Bench(Backend& backend, std::string filter)
      : backend_(backend), filter_(std::move(filter)), peaks_(backend.measure_peaks()) {
    fmt::print(
        "peaks: {:.1f} GFLOP/s fp32, {:.1f} bf16, {:.1f} GB/s\n{:44} {:>11} {:>9} {:>8} {:>8}\n",
        peaks_.fp32_flops * 1e-9,
        peaks_.bf16_flops * 1e-9,
        peaks_.bytes * 1e-9,
        "operator",
        "us",
        "GFLOP/s",
        "GB/s",
        "roofline");
  }

  /// Integers are drawn below `bound`.
  void run(const std::string& name,
           const Operator& op,
           const std::vector<TensorType>& inputs,
           std::uint32_t bound = 1) {
    if (name.find(filter_) == std::string::npos) return;
    OperatorRun run(backend_, op, inputs, {.bound = bound});
    const double seconds = shortest([&] { run.run(); });
    const Cost cost = run.cost();
    fmt::print("{:44} {:11.2f} {:9.1f} {:8.1f} {:7.0f}%\n",
               name,
               seconds * 1e6,
               cost.flops / seconds * 1e-9,
               cost.bytes / seconds * 1e-9,
               run.roofline_percent(seconds, peaks_));
    std::fflush(stdout);
  }

 private:
  template <typename Call>
  static double shortest(Call call) {
    constexpr double kTiming = 0.01;  // seconds a timing takes at least
    constexpr int kTimings = 15;
    call();
    const double start = thread_seconds();
    call();
    const int calls = std::max(1, int(kTiming / std::max(thread_seconds() - start, 1e-9)));
    double best = 1e9;
    for (int timing = 0; timing < kTimings; ++timing) {
      const double begin = thread_seconds();
      for (int i = 0; i < calls; ++i) call();
      best = std::min(best, (thread_seconds() - begin) / calls);
    }
    return best;
  }

  Backend& backend_;
  std::string filter_;
  DevicePeaks peaks_;
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
  bench.run("scale " + name, ops::Scale(0.5f), {x});
  bench.run("cast to bf16 " + name, ops::Cast(DType::bf16), {x});
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
