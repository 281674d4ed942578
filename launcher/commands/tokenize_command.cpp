// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>

#include "core/base/file_kind.h"
#include "core/base/text/number_format.h"
#include "core/data/text/token_file.h"
#include "core/host/cores.h"
#include "core/io/folder.h"
#include "core/io/output_file.h"
#include "core/io/tokenizer/tokenize.h"
#include "core/io/tokenizer/tokenizer_file.h"
#include "launcher/commands/commands.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "lockstep/console.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct TokenizeFlags {
  std::vector<std::string> files, validation;
  std::string out;
  std::string tokenizer;
  std::int64_t vocabulary = 8192;
  double val_fraction = 0.1;
  std::string documents = "files";
  std::string end_of_text;  // empty: the tokenizer's
  std::string invalid_utf8 = "error";
  std::string workers = "auto";
  bool force = false;
};

void declare(CLI::App& app, TokenizeFlags& flags) {
  app.add_option("FILE", flags.files, "texts in UTF-8")->type_name("FILE");
  app.add_option("--out",
                 flags.out,
                 "the folder to write: train.bin, val.bin and tokenizer.json; it becomes --data "
                 "tokens:DIR")
      ->type_name("DIR");
  app.add_option("--tokenizer",
                 flags.tokenizer,
                 "tokenizer.json of Hugging Face's, or a folder with it or with vocab.json and "
                 "merges.txt; without it a tokenizer is trained on the texts")
      ->type_name("PATH");
  app.add_option("--vocabulary", flags.vocabulary, "tokens of a trained tokenizer")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--vocabulary", 257, 1 << 24));
  app.add_option("--validation", flags.validation, "texts for val.bin; may be repeated")
      ->type_name("FILE");
  app.add_option("--val-fraction",
                 flags.val_fraction,
                 "share of the texts for val.bin, at their end, without --validation")
      ->type_name("X")
      ->capture_default_str()
      ->check(real_number("--val-fraction", 0, 0.9));
  app.add_option("--documents", flags.documents, "what the end-of-text token follows")
      ->type_name("files|lines")
      ->capture_default_str()
      ->check(one_of("--documents", {"files", "lines"}));
  app.add_option("--end-of-text",
                 flags.end_of_text,
                 "the token that follows each document; none: no token does; without it "
                 "<|endoftext|>, or Llama 3's <|end_of_text|>")
      ->type_name("none|TOKEN");
  app.add_option("--invalid-utf8",
                 flags.invalid_utf8,
                 "bytes that are not UTF-8: an error, or each replaced by U+FFFD")
      ->type_name("error|replace")
      ->capture_default_str()
      ->check(one_of("--invalid-utf8", {"error", "replace"}));
  app.add_option("--workers", flags.workers, "threads that encode; auto: one a core")
      ->type_name("auto|N")
      ->capture_default_str()
      ->check(whole_number_or("--workers", "auto", 1, 256));
  app.add_flag("--force", flags.force, "write over files of --out that already exist");
}

void check(const CLI::App& app, const TokenizeFlags& flags) {
  if (flags.files.empty())
    throw ConfigError("tokenize: expected texts",
                      "for example lockstep tokenize book.txt --out corpus");
  if (flags.out.empty())
    throw ConfigError("tokenize: expected --out DIR", "the folder becomes --data tokens:DIR");
  if (!flags.tokenizer.empty() && app.count("--vocabulary") > 0)
    throw ConfigError(
        "tokenize: --vocabulary cannot be combined with --tokenizer, which has its "
        "own",
        "omit --tokenizer to train one");
  if (!flags.validation.empty() && app.count("--val-fraction") > 0)
    throw ConfigError("tokenize: --val-fraction cannot be combined with --validation",
                      "omit one of them");
  if (is_there(flags.out) && !is_folder(flags.out))
    throw ConfigError(fmt::format("tokenize: --out {} is not a folder", flags.out));
  for (const char* name : {"train.bin", "val.bin", io::kTokenizerFile})
    if (const fs::path file = fs::path(flags.out) / name; !flags.force && is_there(file))
      throw ConfigError(fmt::format("tokenize: {} already exists", file.string()),
                        "choose another --out, or write over it with --force");
}

class Tokenizing {
 public:
  explicit Tokenizing(const TokenizeFlags& flags) : flags_(flags), console_(console_kind()) {
    options_.unit = flags.documents == "lines" ? io::DocumentUnit::line : io::DocumentUnit::file;
    options_.invalid_utf8 =
        flags.invalid_utf8 == "replace" ? io::InvalidUtf8::replaced : io::InvalidUtf8::refused;
    options_.threads = flags.workers == "auto" ? std::min(available_cores().count, 256)
                                               : int(to_whole_number(flags.workers));
  }

  void run() {
    const io::TextSplit split = texts();
    const data::Tokenizer tokenizer = make_tokenizer(split.train);
    options_.end_of_text = end_of_text(tokenizer);
    io::create_folders(flags_.out);
    put(io::kTokenizerFile,
        [&](const std::string& file) { io::write_file(file, io::to_json(tokenizer)); });
    write("train.bin", split.train, tokenizer);
    if (!split.validation.empty()) {
      write("val.bin", split.validation, tokenizer);
    } else {  // an earlier one's text may be in train.bin now
      io::remove_tree(fs::path(flags_.out) / "val.bin");
    }
    console_.line(fmt::format("output     {}: --data tokens:{}{}",
                              flags_.out,
                              flags_.out,
                              split.validation.empty() ? "/train.bin" : ""));
  }

 private:
  io::TextSplit texts() const {
    if (flags_.validation.empty()) return io::split_texts(flags_.files, flags_.val_fraction);
    return {.train = io::whole_texts(flags_.files),
            .validation = io::whole_texts(flags_.validation)};
  }

  data::Tokenizer make_tokenizer(const std::vector<io::TextRange>& texts) {
    if (!flags_.tokenizer.empty()) {
      data::Tokenizer tokenizer = io::read_tokenizer(flags_.tokenizer);
      console_.line(fmt::format("tokenizer  {}, {} tokens",
                                flags_.tokenizer,
                                format_count(double(tokenizer.vocabulary()))));
      return tokenizer;
    }
    show_progress("words of", io::bytes_of(texts));
    const auto start = std::chrono::steady_clock::now();
    data::Tokenizer tokenizer = io::train_tokenizer(texts, flags_.vocabulary, options_);
    console_.clear_bar();
    console_.line(fmt::format("tokenizer  {} tokens, trained on {:.1f} MB in {:.1f} s",
                              format_count(double(tokenizer.vocabulary())),
                              double(io::bytes_of(texts)) * 1e-6,
                              seconds_since(start)));
    if (tokenizer.vocabulary() < flags_.vocabulary)
      console_.line(fmt::format("           the texts have no more pairs for --vocabulary {}",
                                flags_.vocabulary));
    return tokenizer;
  }

  std::optional<std::int32_t> end_of_text(const data::Tokenizer& tokenizer) const {
    if (flags_.end_of_text == "none") return std::nullopt;
    if (flags_.end_of_text.empty()) {
      if (const auto end = tokenizer.end_of_text()) return end;
      throw ConfigError(
          "tokenize: the tokenizer has neither <|endoftext|> nor <|end_of_text|>, one of which "
          "would "
          "follow each document",
          "name another of its tokens by --end-of-text, or none");
    }
    const auto found = tokenizer.find(flags_.end_of_text);
    if (!found)
      throw ConfigError(fmt::format("tokenize: --end-of-text {}: the tokenizer has no such token",
                                    flags_.end_of_text),
                        "name one of its tokens, or none");
    return found;
  }

  /// Writes a file of the folder under another name, then gives it its own.
  template <typename Write>
  void put(const std::string& name, const Write& write) const {
    const fs::path file = fs::path(flags_.out) / name;
    const std::string temporary = file.string() + ".tmp";
    write(temporary);
    io::put_in_place(temporary, file, flags_.force);
  }

  void write(const std::string& name,
             const std::vector<io::TextRange>& texts,
             const data::Tokenizer& tokenizer) {
    show_progress("tokens of", io::bytes_of(texts));
    const auto start = std::chrono::steady_clock::now();
    std::int64_t tokens = 0;
    put(name, [&](const std::string& file) {
      tokens = io::write_tokens(texts, tokenizer, file, options_);
    });
    console_.clear_bar();
    const double bytes = double(io::bytes_of(texts));
    console_.line(fmt::format("{:<11}{} tokens of {} bits, {:.2f} bytes each, {:.1f} MB/s",
                              name,
                              format_count(double(tokens)),
                              tokenizer.vocabulary() <= data::kMaxNarrowVocabulary ? 16 : 32,
                              tokens > 0 ? bytes / double(tokens) : 0.0,
                              bytes * 1e-6 / std::max(seconds_since(start), 1e-9)));
  }

  void show_progress(const std::string& what, std::uint64_t all) {
    options_.progress = [this, what, all](std::uint64_t bytes) {
      console_.bar(all > 0 ? double(bytes) / double(all) : 1.0,
                   fmt::format("{} {:.0f} MB", what, double(bytes) * 1e-6));
    };
  }

  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const TokenizeFlags& flags_;
  Console console_;
  io::TokenizeOptions options_;
};

}  // namespace

int tokenize_command(const std::vector<std::string>& arguments) {
  CLI::App app("Writes texts as tokens for --data tokens:DIR, by a byte-level BPE tokenizer.",
               "lockstep tokenize");
  TokenizeFlags flags;
  declare(app, flags);
  if (print_help(parse_command_line(app, arguments))) return 0;
  check(app, flags);
  try {
    Tokenizing(flags).run();
  } catch (DataError& error) {
    if (std::string_view(error.what()).find("invalid UTF-8") != std::string_view::npos)
      error.add_hint("--invalid-utf8 replace makes U+FFFD of such bytes");
    throw;
  }
  return 0;
}

}  // namespace lockstep
