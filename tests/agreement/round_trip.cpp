// SPDX-License-Identifier: Apache-2.0
// Logits of two samples, printed one a line, by a model whose weights come from the file FROM ("-":
// from formulas) and are written to TO; tests/reference/roundtrip_*.py compare them with PyTorch's.
//   round_trip MODEL imagenet|cifar SIZE FROM TO               images of SIZExSIZE, 1,000 classes
//   round_trip gpt LAYERS,HEADS,WIDTH,VOCABULARY CONTEXT FROM TO
//   round_trip llama LAYERS,HEADS,KV_HEADS,WIDTH,MLP_WIDTH,VOCABULARY,TIED,FACTOR CONTEXT FROM TO
// TIED is 0 or 1; FACTOR above 1 scales frequencies as Llama 3's, of a context of 64 before.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "core/base/check.h"
#include "core/io/load_weights.h"
#include "tests/agreement/model_run.h"

namespace lockstep::test {
namespace {

nn::ModelSpec gpt(const std::string& sizes, std::int64_t context) {
  nn::ModelSpec spec{.name = "gpt"};
  long long width = 0, vocabulary = 0;
  const int read =
      std::sscanf(sizes.c_str(), "%d,%d,%lld,%lld", &spec.layers, &spec.heads, &width, &vocabulary);
  LOCKSTEP_CHECK(
      read == 4, ConfigError, "{}: expected LAYERS,HEADS,WIDTH,VOCABULARY of a gpt", sizes);
  spec.width = width;
  spec.outputs = vocabulary;
  spec.context = context;
  return spec;
}

nn::ModelSpec llama(const std::string& sizes, std::int64_t context) {
  nn::ModelSpec spec{.name = "llama"};
  long long width = 0, mlp_width = 0, vocabulary = 0;
  int tied = 0;
  const int read = std::sscanf(sizes.c_str(),
                               "%d,%d,%d,%lld,%lld,%lld,%d,%f",
                               &spec.layers,
                               &spec.heads,
                               &spec.kv_heads,
                               &width,
                               &mlp_width,
                               &vocabulary,
                               &tied,
                               &spec.rotary.factor);
  LOCKSTEP_CHECK(read == 8, ConfigError, "{}: expected eight sizes of a llama", sizes);
  spec.width = width;
  spec.mlp_width = mlp_width;
  spec.outputs = vocabulary;
  spec.context = context;
  spec.tied_head = tied == 1;
  spec.rotary.original_context = 64;
  return spec;
}

void run(char** arguments) {
  const std::string name = arguments[1], kind = arguments[2], from = arguments[4];
  const std::int64_t size = std::atoll(arguments[3]);
  nn::ModelSpec spec{.name = name, .outputs = 1000};
  spec.stem = kind == "cifar" ? nn::Stem::cifar : nn::Stem::imagenet;
  Shape sample{3, size, size};
  if (name == "gpt" || name == "llama") {
    spec = name == "gpt" ? gpt(kind, size) : llama(kind, size);
    sample = {size};
  }
  Model model({name, spec, sample, 2, 0.1f, 0.1f, 1.0f}, Sgd{});
  if (from != "-") model.set(io::load_weights(from, model.parameters(), {}));
  for (float logit : model.evaluate()) std::printf("%.9g\n", double(logit));
  io::save_weights(arguments[5], model.weights());
}

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs(
        "usage: round_trip MODEL imagenet|cifar SIZE FROM TO\n"
        "       round_trip gpt LAYERS,HEADS,WIDTH,VOCABULARY CONTEXT FROM TO\n"
        "       round_trip llama LAYERS,HEADS,KV_HEADS,WIDTH,MLP_WIDTH,VOCABULARY,TIED,FACTOR "
        "CONTEXT FROM TO\n",
        stderr);
    return 2;
  }
  try {
    lockstep::test::run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
