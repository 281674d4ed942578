// SPDX-License-Identifier: Apache-2.0
// Mutations of configuration files by lines: keys are those that the program declares, values what
// they take, in each of TOML's ways to write them, and what only other readers of TOML know.
#include <algorithm>

#include "launcher/settings/config_file.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/table/setting.h"
#include "launcher/settings/toml_reader.h"
#include "lockstep/error.h"
#include "tests/fuzz/mutation.h"

namespace {

using namespace lockstep::fuzz;

const std::vector<std::string_view> kValues = words_of(
    "auto none off on true false 0 1 2 -1 0.5 1e-300 1e999 nan inf -0 +1 0x10 1_000 64 "
    "4294967296 9223372036854775808 10m 1.5h 500steps 16GiB 512MB mlp convnet gpt gpt2 "
    "resnet18 resnet50 vgg11 iris glyphs csv:x images:x packed:x text:x tokens:x "
    "synthetic:8x8x1:2 sgd adamw constant cosine step linear cpu cuda fp32 tf32 bf16 "
    "reproducible fast local sync group:8 cifar imagenet tanh erf skip stop rollback ignore "
    "bce mse huber cross-entropy resized-crop:0.5 shift:2,flip crop:4 (a|b)* blocks\\.0\\..* "
    "a:2,b . /");
constexpr std::string_view kOdd[] = {"[section]",
                                     "[[tables]]",
                                     "a.b = 1",
                                     "x = {a = 1}",
                                     "x = \"\"\"\n\"\"\"",
                                     "x = '''a'''",
                                     "x = 1979-05-27",
                                     "# only a comment",
                                     "",
                                     "=",
                                     "\xef\xbb\xbf",
                                     "steps",
                                     "'steps' = 2",
                                     "\"st\\u0065ps\" = 3",
                                     "x = [[1]]",
                                     "x = [",
                                     "x = \"\\U0001F600\""};

/// Every flag of `lockstep train`, without dashes.
std::vector<std::string> declared_keys() {
  std::vector<std::string> keys;
  for (const lockstep::Setting& setting : lockstep::settings_table()) keys.push_back(setting.name);
  keys.push_back("working-folder");
  return keys;
}

/// Files that the program writes, for runs of several kinds.
std::vector<std::string> whole_files() {
  std::vector<std::string> files;
  using Arguments = std::vector<std::string>;
  for (const Arguments& arguments :
       {Arguments{"--model", "mlp"},
        Arguments{"--model", "resnet18", "--data", "synthetic:8x8x3:2"},
        Arguments{"--model", "gpt", "--data", "text:x", "--optimizer", "adamw"},
        Arguments{"--data", "csv:x", "--loss", "huber", "--lr-schedule", "step"}}) {
    try {
      files.push_back(lockstep::to_toml(lockstep::parse_train_flags(arguments)));
    } catch (const lockstep::Error&) {  // some data have to be there
    }
  }
  return files;
}

std::string value_text(Random& random) {
  const std::string word = random.one_in(8) ? mutated_text("1") : std::string(random.pick(kValues));
  switch (random.below(5)) {
    case 0:
      return word;
    case 1:
      return "'" + word + "'";
    case 2:
      return lockstep::toml_string(word);
    case 3:
      return std::to_string(extreme_number(1, random));
    default: {
      std::string list = "[";
      for (std::size_t i = random.below(4); i > 0; --i)
        list += "'" + std::string(random.pick(kValues)) + (random.one_in(4) ? "',\n" : "', ");
      return list + "'" + word + "']";
    }
  }
}

std::string entry_line(Random& random) {
  static const std::vector<std::string> keys = declared_keys();
  if (random.one_in(12)) return std::string(random.pick(kOdd));
  return random.pick(keys) + (random.one_in(8) ? "=" : " = ") + value_text(random) +
         (random.one_in(16) ? "  # why" : "");
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  return lines;
}

/// Another value for the key of `line`.
std::string with_other_value(const std::string& line, Random& random) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos) return entry_line(random);
  if (random.one_in(8)) return line.substr(0, equals + 1) + mutated_text(line.substr(equals + 1));
  return line.substr(0, equals + 1) + " " + value_text(random);
}

Bytes mutate_toml(const Bytes& input, Random& random) {
  static const std::vector<std::string> files = whole_files();
  std::string_view text{reinterpret_cast<const char*>(input.data()), input.size()};
  if (!files.empty() && random.one_in(16)) text = random.pick(files);
  std::vector<std::string> lines = lines_of(text);
  for (std::size_t changes = 1 + random.below(3); changes > 0; --changes) {
    const std::size_t at = random.below(lines.size());
    switch (lines.empty() ? 0 : random.below(5)) {
      case 0:
        lines.insert(lines.begin() + std::ptrdiff_t(at), entry_line(random));
        break;
      case 1:
        lines[at] = entry_line(random);
        break;
      case 2:
        lines.erase(lines.begin() + std::ptrdiff_t(at));
        break;
      case 3:
        std::swap(lines[at], lines[random.below(lines.size())]);
        break;
      default:
        lines[at] = with_other_value(lines[at], random);
    }
  }
  const std::string end = random.one_in(16) ? "\r\n" : "\n";
  Bytes result;
  for (const std::string& line : lines) {
    if (!result.empty()) result.insert(result.end(), end.begin(), end.end());
    result.insert(result.end(), line.begin(), line.end());
  }
  return result;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t bytes,
                                               std::size_t max,
                                               unsigned int seed) {
  return mutate_half(data, bytes, max, seed, mutate_toml);
}
