// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/suggest.h"
#include "core/data/ignore_label.h"
#include "core/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

/// "kind:rest"
struct Source {
  std::string text, kind, rest;
  bool has_colon = false;
};

void expect_no_fraction(const Source& source, const OpenOptions& options) {
  if (options.validation_fraction != 0.0 && !options.trained)
    throw ConfigError(
        fmt::format("data: {} has its own validation part, so a validation fraction ({}) cannot be "
                    "chosen",
                    source.kind,
                    options.validation_fraction),
        "leave `val_fraction` out");
}

void expect_no_crop(const Source& source, const OpenOptions& options) {
  LOCKSTEP_CHECK(options.resized_crop == 0,
                 ConfigError,
                 "`augment`: resized-crop needs images:DIR, packed:FILE or webdataset:PATH, got {}",
                 as_written(source.text));
}

/// Whether there is a path, or nothing, after the name, as `kind` wants it.
void check_argument(const Source& source, const SourceKind& kind) {
  if (kind.takes_path() && source.rest.empty())
    throw ConfigError(fmt::format("data: expected {}, got no path", form_of(kind)),
                      fmt::format("for example `data` {}:data/{}", kind.name, kind.name));
  LOCKSTEP_CHECK(!kind.argument.empty() || !source.has_colon,
                 ConfigError,
                 "data: {} takes nothing after it, got '{}'",
                 kind.name,
                 as_written(source.text));
}

DataSplit open_glyphs(const Source& source, const OpenOptions& options) {
  expect_no_fraction(source, options);
  expect_no_crop(source, options);
  return glyphs();
}

DataSplit open_csv(const Source& source, const OpenOptions& options) {
  expect_no_crop(source, options);
  return csv(
      source.rest, options.table, options.validation_fraction, options.seed, options.trained);
}

DataSplit open_mnist(const Source& source, const OpenOptions& options) {
  expect_no_fraction(source, options);
  expect_no_crop(source, options);
  return mnist(source.rest);
}

DataSplit open_cifar10(const Source& source, const OpenOptions& options) {
  expect_no_fraction(source, options);
  expect_no_crop(source, options);
  return cifar10(source.rest);
}

ImageOptions image_options(const OpenOptions& options) {
  return {options.image_size,
          options.resized_crop,
          options.seed,
          options.validation_fraction,
          options.trained,
          options.max_pixels};
}

DataSplit open_images(const Source& source, const OpenOptions& options) {
  return images(source.rest, image_options(options));
}

DataSplit open_packed(const Source& source, const OpenOptions& options) {
  return packed(source.rest, image_options(options));
}

DataSplit open_webdataset(const Source& source, const OpenOptions& options) {
  return webdataset(source.rest, image_options(options));
}

/// Reads "224x224x3:1000" into `shape`; false where it is something else.
bool read_shape(std::string_view text, SyntheticShape& shape) {
  const char* at = text.data();
  const char* end = text.data() + text.size();
  const auto number = [&](auto& value, char behind) {
    const auto [next, status] = std::from_chars(at, end, value);
    if (status != std::errc{}) return false;
    at = next;
    if (behind == '\0') return true;
    return at != end && *at++ == behind;
  };
  if (!number(shape.height, 'x') || !number(shape.width, 'x') || !number(shape.channels, '\0'))
    return false;
  if (at == end) return true;
  return *at++ == ':' && number(shape.classes, '\0') && at == end;
}

DataSplit open_synthetic(const Source& source, const OpenOptions& options) {
  SyntheticShape shape;
  if (source.has_colon && !read_shape(source.rest, shape))
    throw ConfigError(fmt::format("data: expected synthetic[:HxWxC[:CLASSES]], got '{}'",
                                  as_written(source.text)),
                      "for example `data` synthetic:32x32x3:10");
  expect_no_fraction(source, options);
  expect_no_crop(source, options);
  return synthetic(shape, options.seed);
}

DataSplit open_numpy(const Source& source, const OpenOptions& options) {
  expect_no_crop(source, options);
  return numpy(source.rest, options);
}

DataSplit open_text(const Source& source, const OpenOptions& options) {
  expect_no_crop(source, options);
  return text(source.rest, options);
}

DataSplit open_tokens(const Source& source, const OpenOptions& options) {
  expect_no_crop(source, options);
  return tokens(source.rest, options);
}

struct Opener {
  SourceKind kind;
  DataSplit (*open)(const Source&, const OpenOptions&);
};

constexpr std::array<Opener, 11> kOpeners{
    {{{"glyphs", "", "drawn digits"}, open_glyphs},
     {{"csv", "FILE", "a table"}, open_csv},
     {{"mnist", "DIR"}, open_mnist},
     {{"cifar10", "DIR"}, open_cifar10},
     {{"images", "DIR", "a folder of JPEG and PNG files per class"}, open_images},
     {{"packed", "FILE", "of lockstep pack"}, open_packed},
     {{"webdataset", "PATH", "tar shards"}, open_webdataset},
     {{"numpy", "PATH", ".npz, or a folder of .npy"}, open_numpy},
     {{"text", "FILE", "characters"}, open_text},
     {{"tokens", "PATH", "of lockstep tokenize, nanoGPT or llm.c"}, open_tokens},
     {{"synthetic", "[:HxWxC[:CLASSES]]"}, open_synthetic}}};

/// "glyphs, csv:FILE or synthetic"
std::string all_forms() {
  std::string text;
  for (const Opener& opener : kOpeners) {
    if (!text.empty()) text += &opener == &kOpeners.back() ? " or " : ", ";
    text += form_of(opener.kind);
  }
  return text;
}

DataSplit open_kind(const std::string& text, const OpenOptions& options) {
  const auto colon = text.find(':');
  const bool has_colon = colon != text.npos;
  const Source source{
      text, text.substr(0, colon), has_colon ? text.substr(colon + 1) : "", has_colon};
  std::vector<std::string_view> names;
  for (const Opener& opener : kOpeners) {
    names.push_back(opener.kind.name);
    if (opener.kind.name != source.kind) continue;
    check_argument(source, opener.kind);
    return opener.open(source, options);
  }
  const std::string near = nearest(source.kind, names);
  throw ConfigError(fmt::format("data: expected {}, got '{}'", all_forms(), as_written(text)),
                    near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

}  // namespace

std::vector<SourceKind> source_kinds() {
  std::vector<SourceKind> kinds;
  std::ranges::transform(kOpeners, std::back_inserter(kinds), &Opener::kind);
  return kinds;
}

std::string form_of(const SourceKind& kind) {
  return fmt::format("{}{}{}", kind.name, kind.takes_path() ? ":" : "", kind.argument);
}

DataSplit open(const std::string& source, const OpenOptions& options) {
  DataSplit split = open_kind(source, options);
  if (options.trained) {
    if (split.validation)
      check_agreement(*options.trained, split.validation->preprocessing(), source);
    split.train = nullptr;
  }
  const std::shared_ptr<const Dataset>& part = split.train ? split.train : split.validation;
  if (part == nullptr || !options.ignore_index || part->spec().ignore_index) return split;
  const SampleSpec& spec = part->spec();
  LOCKSTEP_CHECK(spec.classes > 0,
                 ConfigError,
                 "data: {} has no classes, so no label can be ignored",
                 as_written(source));
  return {split.train ? ignore_label(split.train, *options.ignore_index) : nullptr,
          split.validation ? ignore_label(split.validation, *options.ignore_index) : nullptr};
}

}  // namespace lockstep::data
