// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "core/data/ignore_label.h"
#include "core/data/sources.h"

namespace lockstep::data {
namespace {

void expect_no_fraction(std::string_view kind, double validation_fraction) {
  if (validation_fraction != 0.0)
    throw ConfigError(
        fmt::format("data: {} has its own validation part, so a validation fraction ({}) cannot be "
                    "chosen",
                    kind,
                    validation_fraction),
        "leave --val-fraction out");
}

void expect_path(std::string_view kind, std::string_view path, std::string_view name) {
  if (path.empty())
    throw ConfigError(fmt::format("data: expected {}:{}, got no path", kind, name),
                      fmt::format("for example --data {}:data/{}", kind, kind));
}

DataSplit open_kind(const std::string& source, const OpenOptions& options) {
  const auto colon = source.find(':');
  const std::string kind = source.substr(0, colon);
  const std::string path = colon == source.npos ? "" : source.substr(colon + 1);
  if (kind == "glyphs") {
    LOCKSTEP_CHECK(colon == source.npos,
                   ConfigError,
                   "data: glyphs takes nothing behind it, got '{}'",
                   source);
    expect_no_fraction(kind, options.validation_fraction);
    return glyphs();
  }
  if (kind == "csv") {
    expect_path(kind, path, "FILE");
    return csv(path, options.validation_fraction, options.seed);
  }
  if (kind == "mnist") {
    expect_path(kind, path, "DIR");
    expect_no_fraction(kind, options.validation_fraction);
    return mnist(path);
  }
  if (kind == "text") {
    expect_path(kind, path, "FILE");
    return text(path, options);
  }
  if (kind == "tokens") {
    expect_path(kind, path, "PATH");
    return tokens(path, options);
  }
  constexpr std::array<std::string_view, 5> kKinds{"glyphs", "csv", "mnist", "text", "tokens"};
  const std::string near = nearest(kind, kKinds);
  throw ConfigError(
      fmt::format("data: expected glyphs, csv:FILE, mnist:DIR, text:FILE or tokens:PATH, got '{}'",
                  source),
      near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

}  // namespace

DataSplit open(const std::string& source, const OpenOptions& options) {
  DataSplit split = open_kind(source, options);
  const SampleSpec& spec = split.train->spec();
  if (!options.ignore_index || spec.ignore_index) return split;
  LOCKSTEP_CHECK(
      spec.classes > 0, ConfigError, "data: {} has no classes, so no label can be ignored", source);
  return {ignore_label(split.train, *options.ignore_index),
          split.validation ? ignore_label(split.validation, *options.ignore_index) : nullptr};
}

}  // namespace lockstep::data
