// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cudnn_graph.h>
#include <map>
#include <vector>

namespace lockstep::cuda {

struct FakeDescriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, std::vector<std::byte>> values;

  bool has(cudnnBackendAttributeName_t name) const { return values.contains(name); }
  template <typename T>
  std::vector<T> list(cudnnBackendAttributeName_t name) const {
    const std::vector<std::byte>& bytes = values.at(name);
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  template <typename T>
  T one(cudnnBackendAttributeName_t name) const {
    return list<T>(name).at(0);
  }
  const FakeDescriptor* part(cudnnBackendAttributeName_t name) const {
    return static_cast<const FakeDescriptor*>(one<void*>(name));
  }
};

/// Runs the operations of `graph` on tensors at these places, by their unique ids. Throws
/// std::out_of_range: an attribute or a tensor is missing.
void execute_fake_graph(const FakeDescriptor& graph, const std::map<std::int64_t, void*>& places);

}  // namespace lockstep::cuda
