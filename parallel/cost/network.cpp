// SPDX-License-Identifier: Apache-2.0
#include "parallel/cost/network.h"

#include <limits>

namespace lockstep {
namespace {

constexpr double kMicro = 1e-6, kGiga = 1e9;

Network make(std::string_view name, std::string_view words, Link inside, Link between) {
  return {std::string(name), std::string(words), inside, between, 8};
}

}  // namespace

std::optional<Network> named_network(std::string_view name) {
  // Inside a host, NVLink 4: 18 links of 25 GB/s in each direction, 450 GB/s a GPU (NVIDIA H100
  // Tensor Core GPU Architecture, 2022). Between hosts, eight ConnectX-7 adapters of 400 Gb/s
  // (NVIDIA DGX H100 data sheet): 400 GB/s a host. Latencies: launch and protocol of a message,
  // about 2 us inside and 5 us through an adapter (nccl-tests at small sizes).
  if (name == "nvlink")
    return make(name,
                "8 ranks a host on NVLink 4, 8 adapters of 400 Gb/s between hosts",
                {2 * kMicro, 450 * kGiga},
                {5 * kMicro, 400 * kGiga});
  // PCIe 5.0 x16: 63 GB/s in each direction less packet headers, about 50 (PCI Express Base
  // Specification 5.0). InfiniBand NDR: 400 Gb/s an adapter, one a host; 1 us port to port and
  // about as much in the library (NVIDIA ConnectX-7 data sheet).
  if (name == "ib")
    return make(name,
                "8 ranks a host on PCIe 5.0, one InfiniBand adapter of 400 Gb/s a host",
                {2 * kMicro, 50 * kGiga},
                {2 * kMicro, 50 * kGiga});
  // PCIe 4.0 x16: 31.5 GB/s in each direction, about 25 after headers. 25GBASE-R Ethernet (IEEE
  // 802.3by): 25 Gb/s, of which 1448 of 1538 bytes of a frame carry data; TCP over it takes about
  // 25 us for a small message.
  if (name == "ethernet")
    return make(name,
                "8 ranks a host on PCIe 4.0, 25 Gb/s Ethernet with TCP between hosts",
                {2 * kMicro, 25 * kGiga},
                {25 * kMicro, 25e9 / 8 * 1448 / 1538});
  return std::nullopt;
}

Network shared_memory_network() {
  const Link memory{1 * kMicro, 4 * kGiga};
  return {"shared memory", "ranks of one host", memory, memory, std::numeric_limits<int>::max()};
}

}  // namespace lockstep
