// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_library.h"

#include <map>

#include "kernels/cuda/device/cuda_build.h"
#include "kernels/cuda/libraries/package_names.h"
#include "lockstep/error.h"

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

std::string refuse_nccl(void* library) {
  auto* const ask = cuda::function_of<decltype(ncclGetVersion)>(library, "ncclGetVersion");
  int found = 0;
  if (ask == nullptr) return "is not NCCL: it lacks ncclGetVersion";
  if (ask(&found) != ncclSuccess) found = 0;
  return why_unfit_nccl(found);
}

}  // namespace

cuda::LibraryName nccl_name(const std::string& file) {
  return {.file = file.empty() ? fmt::format("libnccl.so.{}", NCCL_MAJOR) : file,
          .version = version_text(NCCL_VERSION_CODE),
          .how_to_install =
              cuda::how_to_install(
                  "nccl", cuda_build().runtime_version / 1000, version_text(kOldest), "libnccl2") +
              ", on every host",
          .refuse = refuse_nccl};
}

std::string why_unfit_nccl(int code) {
  if (major_of(code) == NCCL_MAJOR && code >= kOldest) return {};
  return fmt::format("is version {}, and {} or later of {} is wanted",
                     version_text(code),
                     version_text(kOldest),
                     NCCL_MAJOR);
}

const OpenNccl& open_nccl_file(const std::string& file) {
  static std::map<std::string, OpenNccl> opened;
  const auto known = opened.find(file);
  if (known != opened.end()) return known->second;
  const cuda::DynamicLibrary library(nccl_name(file));
  return opened.emplace(file, OpenNccl{load_nccl(library), library.path()}).first->second;
}

const Nccl& open_nccl(const std::string& file) { return open_nccl_file(file).functions; }

int checked_version(const Nccl& nccl, const cuda::LibraryName& name) {
  int found = 0;
  if (nccl.ncclGetVersion(&found) != ncclSuccess) found = 0;
  const std::string why = why_unfit_nccl(found);
  if (why.empty()) return found;
  throw EnvironmentError(fmt::format("{} {}", name.file, why),
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

}  // namespace lockstep
