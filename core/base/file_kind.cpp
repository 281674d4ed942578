// SPDX-License-Identifier: Apache-2.0
#include "core/base/file_kind.h"

#include <cerrno>
#include <fmt/format.h>
#include <system_error>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep {

namespace fs = std::filesystem;

fs::file_type file_kind(const fs::path& path) {
  std::error_code error;
  const fs::file_type kind = fs::status(path, error).type();
  if (kind == fs::file_type::none)
    throw DataError(
        fmt::format("{}: cannot look it up: {}", as_written(path.string()), error.message()),
        read_hint(error.value()));
  return kind;
}

bool is_there(const fs::path& path) { return file_kind(path) != fs::file_type::not_found; }
bool is_file(const fs::path& path) { return file_kind(path) == fs::file_type::regular; }
bool is_folder(const fs::path& path) { return file_kind(path) == fs::file_type::directory; }

std::string read_hint(int code) {
  switch (code) {
    case EIO:
      return "the disk or the connection to it fails: look into the kernel's log";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and of the folders around it";
    case EMFILE:
    case ENFILE:
      return "too many files are open: raise ulimit -n";
    default:
      return "check the path, its permissions and the disk";
  }
}

}  // namespace lockstep
