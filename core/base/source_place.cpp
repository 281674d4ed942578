// SPDX-License-Identifier: Apache-2.0
#include "core/base/source_place.h"

#include <string_view>

namespace lockstep {
namespace {

/// Of the files of Lockstep itself: where they lay when it was built.
std::string_view build_root() {
  constexpr std::string_view kThis = __FILE__, kInProject = "core/base/source_place.cpp";
  return kThis.ends_with(kInProject) ? kThis.substr(0, kThis.size() - kInProject.size())
                                     : std::string_view();
}

}  // namespace

std::string place_of(SourceLoc where) {
  std::string_view file = where.file;
  if (file.starts_with(build_root())) file.remove_prefix(build_root().size());
  return std::string(file) + ":" + std::to_string(where.line);
}

}  // namespace lockstep
