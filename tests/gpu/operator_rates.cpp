// SPDX-License-Identifier: Apache-2.0
// How fast the operators of a device are, one by one, compared with a copy and a large GEMM on
// it: those bound by memory (forward, backward, the optimizer's work), attention, and the matrix
// products and convolutions of GPT-2 124M and ResNet-50. A Markdown table, then the memory-bound
// ones below 85% of the copy's bandwidth, then which algorithm of a library runs each product and
// convolution, with which epilogue, and where it refused one.
//
//   operator_rates [--json FILE] [--only PART_OF_A_NAME] [--small]
//
// "us" is one run of what a step runs for each micro-batch: bias, activation, rounding and the sum
// of the gradients included; "+ conversion" the bf16 copy of the parameters, made once a step.
// GB/s counts each tensor once.
// Exit code 1 where a case failed, 2 for bad usage, 3 without a device.
#include <iostream>

#include "lockstep/error.h"
#include "tests/gpu/rates.h"
#include "tests/support/test_backend.h"

namespace lockstep::rates {
namespace {

int measure(const Options& options, const std::string& json) {
  const auto backend = lockstep::testing::make_test_backend();
  Rates rates(*backend, options);
  time_elementwise(rates);
  time_feature_maps(rates);
  time_transformer(rates);
  time_flat(rates);
  time_store_gradient(rates);
  time_attention(rates);
  time_linear(rates);
  time_convolutions(rates);
  rates.print_judgement();
  rates.print_chosen();
  if (!json.empty()) rates.write_json(json);
  return rates.all_measured() ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::rates

int main(int argc, char** argv) {
  lockstep::rates::Options options;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--small") {
      options.small = true;
    } else if ((flag == "--json" || flag == "--only") && i + 1 < argc) {
      (flag == "--json" ? json : options.only) = argv[++i];
    } else {
      std::cerr << "usage: operator_rates [--json FILE] [--only PART_OF_A_NAME] [--small]\n";
      return 2;
    }
  }
  if (const std::string missing = lockstep::testing::missing_device(); !missing.empty()) {
    std::cerr << "operator_rates: not measured: " << missing << '\n';
    return 3;
  }
  try {
    return lockstep::rates::measure(options, json);
  } catch (const lockstep::Error& error) {
    std::cerr << "operator_rates: " << error.what() << '\n' << error.hint() << '\n';
    return 1;
  }
}
