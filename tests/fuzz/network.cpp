// SPDX-License-Identifier: Apache-2.0
// The files of --network: what is taken are numbers that a forecast can use.
#include "parallel/cost/network.h"

#include <cmath>

#include "launcher/plan/network_file.h"
#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::run_parser(bytes, [&] {
    const Network network = parse_network(std::string(fuzz::as_text(data, bytes)), "file");
    fuzz::require(network.ranks_per_host >= 1, "hosts without ranks");
    for (const Link& link : {network.inside, network.between})
      fuzz::require(link.latency_s >= 0 && std::isfinite(link.latency_s) && link.bytes_per_s > 0 &&
                        std::isfinite(link.bytes_per_s),
                    "a link that transfers nothing, or in no time");
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 60'000;  // open_network() reads no more than 64 KiB
  return {repeated("ranks_per_host = 1\n", kBytes),
          "ranks_per_host = [" + repeated("1,", kBytes) + "1]",
          repeated("k", kBytes) + " = 1"};
}

}  // namespace lockstep::fuzz
