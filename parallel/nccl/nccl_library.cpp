// SPDX-License-Identifier: Apache-2.0
#include "parallel/nccl/nccl_library.h"

#include <map>

#include "core/base/error.h"
#include "parallel/nccl/nccl_communicator.h"

namespace lockstep {
namespace {

// The first that heeds NCCL_LAUNCH_ORDER_IMPLICIT, see Note [Order of communicators].
constexpr int kOldest = NCCL_VERSION(2, 26, 0);

Nccl load_nccl(const cuda::DynamicLibrary& library) {
  Nccl functions;
#define LOCKSTEP_FIND(name) library.find(functions.name, #name);
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
  return functions;
}

// The way of counting changed with 2.9.
int major_of(int code) { return code < 10000 ? code / 1000 : code / 10000; }

}  // namespace

cuda::LibraryName nccl_name(const std::string& file) {
  return {.file = file.empty() ? fmt::format("libnccl.so.{}", NCCL_MAJOR) : file,
          .version = version_text(NCCL_VERSION_CODE),
          .how_to_install =
              fmt::format("install NCCL {} on every host", version_text(NCCL_VERSION_CODE))};
}

const Nccl& open_nccl(const std::string& file) {
  static std::map<std::string, Nccl> opened;
  const auto known = opened.find(file);
  if (known != opened.end()) return known->second;
  return opened.emplace(file, load_nccl(cuda::DynamicLibrary(nccl_name(file)))).first->second;
}

int checked_version(const Nccl& nccl, const cuda::LibraryName& name) {
  int found = 0;
  if (nccl.ncclGetVersion(&found) != ncclSuccess) found = 0;
  if (major_of(found) == NCCL_MAJOR && found >= kOldest) return found;
  throw EnvironmentError(fmt::format("{} is version {}, but {} was built against, and {} is the "
                                     "oldest that will do",
                                     name.file,
                                     version_text(found),
                                     name.version,
                                     version_text(kOldest)),
                         name.how_to_install + "; LOCKSTEP_NCCL=off does without");
}

std::string version_text(int code) {
  const int scale = code < 10000 ? 10 : 100;
  return fmt::format("{}.{}.{}", major_of(code), code / 100 % scale, code % 100);
}

std::string error_text(const Nccl& nccl, ncclResult_t status, ncclComm_t comm) {
  const char* words = nccl.ncclGetErrorString(status);
  const char* last = nccl.ncclGetLastError(comm);
  const std::string text = words != nullptr ? words : "unknown error";
  return last != nullptr && *last != 0 ? fmt::format("{}: {}", text, last) : text;
}

std::string nccl_version() { return version_text(checked_version(open_nccl(), nccl_name())); }

}  // namespace lockstep
