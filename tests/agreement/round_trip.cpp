// SPDX-License-Identifier: Apache-2.0
// round_trip MODEL STEM SIZE FROM TO: logits of two images of SIZExSIZE by a model for 1,000
// classes, printed one a line; its weights come from the file FROM ("-": from formulas) and are
// written to TO. tests/reference/roundtrip_pytorch.py compares them with PyTorch's.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "core/io/load_weights.h"
#include "tests/agreement/model_run.h"

namespace lockstep::test {
namespace {

void run(char** arguments) {
  nn::ModelSpec spec{.name = arguments[1], .outputs = 1000};
  spec.stem = std::string(arguments[2]) == "cifar" ? nn::Stem::cifar : nn::Stem::imagenet;
  const std::int64_t size = std::atoll(arguments[3]);
  const std::string from = arguments[4];
  Model model({spec.name, spec, {3, size, size}, 2, 0.1f, 0.1f, 1.0f}, Sgd{});
  if (from != "-") model.set(io::load_weights(from, model.parameters(), {}));
  for (float logit : model.evaluate()) std::printf("%.9g\n", double(logit));
  io::save_weights(arguments[5], model.weights());
}

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs("usage: round_trip MODEL imagenet|cifar SIZE FROM TO\n", stderr);
    return 2;
  }
  try {
    lockstep::test::run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
