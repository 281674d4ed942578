// SPDX-License-Identifier: Apache-2.0
#include "core/host/file_probe.h"

#include <atomic>

namespace lockstep {
namespace {

std::atomic<FileProbe*> current_probe = nullptr;

}  // namespace

std::string_view name_of(FileOperation operation) {
  constexpr std::string_view kOperations[] = {
      "create", "open", "write", "sync", "make folder", "rename", "remove"};
  return kOperations[std::size_t(operation)];
}

void set_file_probe(FileProbe* probe) { current_probe.store(probe, std::memory_order_release); }

bool tell_probe(FileOperation operation, const std::filesystem::path& path) {
  FileProbe* const probe = current_probe.load(std::memory_order_acquire);
  return probe == nullptr || probe->before(operation, path);
}

void tell_probe_of_save(int rank) {
  FileProbe* const probe = current_probe.load(std::memory_order_acquire);
  if (probe != nullptr) probe->begin_save(rank);
}

}  // namespace lockstep
