// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>

#include "core/base/file_kind.h"
#include "core/base/text/number_format.h"
#include "core/data/image.h"
#include "core/data/images/pack.h"
#include "core/host/cores.h"
#include "launcher/commands/commands.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "lockstep/console.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

struct PackFlags {
  std::string data;
  std::string out;
  std::int64_t image_size = 256;
  std::int64_t max_pixels = data::kDefaultMaxPixels;
  std::string workers = "auto";
  bool skip_bad_samples = false;
  bool force = false;
};

void declare(CLI::App& app, PackFlags& flags) {
  app.add_option("--data", flags.data, "images:DIR, a folder of JPEG and PNG files per class")
      ->type_name("images:DIR");
  app.add_option("--out", flags.out, "the file to write")->type_name("FILE");
  app.add_option("--image-size", flags.image_size, "short side to which larger images are shrunk")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--image-size", 1, data::kMaxImageSize));
  app.add_option("--max-pixels", flags.max_pixels, "a file of more pixels is refused")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--max-pixels", 1, data::kMaxMaxPixels));
  app.add_option("--workers", flags.workers, "threads that decode; auto: one a core")
      ->type_name("auto|N")
      ->capture_default_str()
      ->check(whole_number_or("--workers", "auto", 1, 256));
  app.add_flag("--skip-bad-samples", flags.skip_bad_samples, "skip files that cannot be decoded");
  app.add_flag("--force", flags.force, "write over --out where it already exists");
}

data::PackOptions check(const PackFlags& flags) {
  if (!flags.data.starts_with("images:") || flags.data.size() == 7)
    throw ConfigError(fmt::format("pack: expected --data images:DIR, got '{}'", flags.data),
                      "for example lockstep pack --data images:photos --out photos.pack");
  if (flags.out.empty())
    throw ConfigError("pack: expected --out FILE", "the file becomes --data packed:FILE");
  if (is_folder(flags.out))
    throw ConfigError(fmt::format("pack: --out {} is a folder", flags.out), "name a file in it");
  if (!flags.force && is_there(flags.out))
    throw ConfigError(fmt::format("pack: --out {} already exists", flags.out),
                      "choose another file, or write over it with --force");
  data::PackOptions options;
  options.short_side = int(flags.image_size);
  options.max_pixels = flags.max_pixels;
  options.threads = flags.workers == "auto" ? std::min(available_cores().count, 256)
                                            : int(to_whole_number(flags.workers));
  options.skip_bad_samples = flags.skip_bad_samples;
  return options;
}

}  // namespace

int pack_command(const std::vector<std::string>& arguments) {
  CLI::App app("Writes an image folder as one file that loads faster.", "lockstep pack");
  PackFlags flags;
  declare(app, flags);
  if (print_help(parse_command_line(app, arguments))) return 0;
  data::PackOptions options = check(flags);
  Console console(console_kind());
  options.progress = [&](std::int64_t done, std::int64_t total) {
    console.bar(double(done) / double(total), fmt::format("{} images", done));
  };
  const auto start = std::chrono::steady_clock::now();
  const data::PackReport report = data::pack_images(flags.data.substr(7), flags.out, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  console.clear_bar();
  const std::int64_t images = report.train_samples + report.validation_samples;
  console.line(fmt::format("packed     {} training and {} validation images of {} classes",
                           format_count(double(report.train_samples)),
                           format_count(double(report.validation_samples)),
                           report.classes));
  console.line(fmt::format("output     {}, {:.1f} MB, {} images/s",
                           flags.out,
                           double(report.bytes) * 1e-6,
                           format_count(double(images) / seconds.count())));
  if (report.skipped > 0)
    console.line(
        fmt::format("skipped    {} images; the first: {}", report.skipped, report.first_skipped));
  return 0;
}

}  // namespace lockstep
