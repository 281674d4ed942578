// SPDX-License-Identifier: Apache-2.0
#include "launcher/processes/memory_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <sys/file.h>
#include <unistd.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

std::string beginning(std::string_view kind) { return fmt::format("lockstep-{}-", kind); }

}  // namespace

bool is_memory_folder(const std::filesystem::path& path, std::string_view kind) {
  return path.parent_path() == kMemoryFileSystem &&
         path.filename().string().starts_with(beginning(kind));
}

std::vector<std::filesystem::path> memory_folders(std::string_view kind) {
  std::vector<std::filesystem::path> folders;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir(kMemoryFileSystem), closedir);
  if (all == nullptr) return folders;
  while (const dirent* entry = readdir(all.get()))
    if (std::string_view(entry->d_name).starts_with(beginning(kind)))
      folders.push_back(std::filesystem::path(kMemoryFileSystem) / entry->d_name);
  return folders;
}

std::filesystem::path make_memory_folder(std::string_view kind) {
  std::string path = fmt::format("{}/{}XXXXXX", kMemoryFileSystem, beginning(kind));
  if (mkdtemp(path.data()) == nullptr)
    throw EnvironmentError(fmt::format("{}: {}", kMemoryFileSystem, std::strerror(errno)));
  return path;
}

int lock_memory_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  return -1;
}

}  // namespace lockstep
