// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Another process that holds memory.
struct MemoryConsumer {
  int process = 0;
  std::string name;         ///< "python3"; empty where it is not to be seen from here
  std::uint64_t bytes = 0;  ///< 0: not said
};

/// The largest processes of this host by resident memory, without this one, and where `siblings`
/// is false also those that the same parent started under the same name: ranks of one job. At most
/// `most`, each of at least `least` bytes, the largest first. Reads /proc below `root`.
std::vector<MemoryConsumer> largest_processes(std::size_t most,
                                              std::uint64_t least,
                                              bool siblings,
                                              const std::string& root = {});

/// Who else holds memory of the GPU with a DeviceMemory::pool, as NVIDIA's management library says;
/// none where it does not.
std::vector<MemoryConsumer> gpu_processes(const std::string& pool);

/// "python3 (process 77) 3.10 GiB, java (process 9) 1.25 GiB"; empty for none.
std::string to_string(const std::vector<MemoryConsumer>& users);

}  // namespace lockstep
