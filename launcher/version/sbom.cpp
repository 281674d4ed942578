// SPDX-License-Identifier: Apache-2.0
#include "launcher/version/sbom.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/sha256.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kUnknown = "NOASSERTION";
constexpr const char* kLockstep = "SPDXRef-Package-lockstep";

/// An SPDX identifier has letters, digits, dots and dashes.
std::string spdx_id(const std::string& name) {
  std::string id = "SPDXRef-Package-" + name;
  for (char& c : id)
    if (c == '_' || c == '+') c = '-';
  return id;
}

Json package(const std::string& name,
             const std::string& version,
             const std::string& license,
             const std::string& home) {
  Json json{{"SPDXID", spdx_id(name)}, {"name", name}};
  if (!version.empty()) json["versionInfo"] = version;
  json["downloadLocation"] = kUnknown;
  json["filesAnalyzed"] = false;
  if (home != kUnknown) json["homepage"] = home;
  json["licenseConcluded"] = kUnknown;
  json["licenseDeclared"] = license;
  json["copyrightText"] = kUnknown;
  const std::string at = version.empty() ? version : "@" + version;
  json["externalRefs"] = {{{"referenceCategory", "PACKAGE-MANAGER"},
                           {"referenceType", "purl"},
                           {"referenceLocator", fmt::format("pkg:generic/{}{}", name, at)}}};
  return json;
}

Json relationship(const std::string& from, const char* type, const std::string& to) {
  return {{"spdxElementId", from}, {"relationshipType", type}, {"relatedSpdxElement", to}};
}

/// `files`: names up to ".so", one space between.
bool has_file(std::string_view files, std::string_view stem) {
  while (!files.empty()) {
    const std::size_t end = std::min(files.find(' '), files.size());
    if (files.substr(0, end) == stem) return true;
    files.remove_prefix(std::min(end + 1, files.size()));
  }
  return false;
}

bool owns(const Dependency& dependency, const LoadedLibrary& library) {
  const std::string_view name = library.name;
  return has_file(dependency.files, name.substr(0, name.find(".so")));
}

const char* link_type(const Dependency& dependency, std::span<const LoadedLibrary> loaded) {
  const bool shared = std::ranges::any_of(
      loaded, [&](const LoadedLibrary& library) { return owns(dependency, library); });
  return shared && dependency.link == Link::linked ? "DYNAMIC_LINK" : "STATIC_LINK";
}

}  // namespace

const Dependency* dependency_of(const BuildRecord& record, const LoadedLibrary& library) {
  const auto found = std::ranges::find_if(
      record.dependencies, [&](const Dependency& dependency) { return owns(dependency, library); });
  return found == record.dependencies.end() ? nullptr : &*found;
}

Json sbom(const BuildRecord& record, std::span<const LoadedLibrary> loaded) {
  Json packages = Json::array(), relationships = Json::array();
  Json own = package("lockstep", record.version, "Apache-2.0", kUnknown);
  own["primaryPackagePurpose"] = "APPLICATION";
  if (!record.commit.empty()) own["sourceInfo"] = "built from git commit " + record.commit;
  packages.push_back(own);
  relationships.push_back(relationship("SPDXRef-DOCUMENT", "DESCRIBES", kLockstep));
  for (const Dependency& dependency : record.dependencies) {
    packages.push_back(
        package(dependency.name, dependency.version, dependency.license, dependency.home));
    const std::string id = spdx_id(dependency.name);
    if (dependency.link == Link::opened) {
      relationships.push_back(relationship(id, "OPTIONAL_DEPENDENCY_OF", kLockstep));
      continue;
    }
    relationships.push_back(relationship(kLockstep, "DEPENDS_ON", id));
    relationships.push_back(relationship(kLockstep, link_type(dependency, loaded), id));
  }
  // Builds that differ have namespaces that differ.
  const std::string content = packages.dump() + relationships.dump() + record.build_type +
                              record.compiler + record.flags + record.time;
  return {{"spdxVersion", "SPDX-2.3"},
          {"dataLicense", "CC0-1.0"},
          {"SPDXID", "SPDXRef-DOCUMENT"},
          {"name", "lockstep-" + record.version},
          {"documentNamespace",
           fmt::format("https://spdx.org/spdxdocs/lockstep-{}-{}",
                       record.version,
                       sha256_of(content).substr(0, 32))},
          {"creationInfo",
           {{"created", record.time}, {"creators", {"Tool: lockstep-" + record.version}}}},
          {"packages", packages},
          {"relationships", relationships}};
}

}  // namespace lockstep
