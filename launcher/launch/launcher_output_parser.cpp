// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/launcher_output_parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <regex>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "parallel/watchdog/failure_report.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {
namespace {

/// Above and below a message of mpirun.
bool is_rule(const std::string& line) {
  return line.size() >= 60 && line.find_first_not_of('-') == std::string::npos;
}

template <typename TakeLine>
std::string take_lines(std::string& rest, std::string_view piece, TakeLine take_line) {
  std::string shown;
  rest += piece;
  std::size_t start = 0;
  for (std::size_t end; (end = rest.find('\n', start)) != std::string::npos; start = end + 1)
    shown += take_line(rest.substr(start, end - start));
  rest.erase(0, start);
  return shown;
}

/// Of "  process 12, step 856, exchange"; -1: none.
std::int64_t step_in(std::string_view line) {
  constexpr std::string_view kStep = ", step ";
  const std::size_t at = line.starts_with("  ") ? line.find(kStep) : line.npos;
  std::int64_t step = -1;
  if (at != line.npos)
    std::from_chars(line.data() + at + kStep.size(), line.data() + line.size(), step);
  return step;
}

void set_once(ReportedFault& fault, std::string text) {
  if (fault.text.empty()) fault.text = std::move(text);
}

}  // namespace

std::string ErrorOutput::take(std::string_view piece) {
  std::string text(piece);
  std::erase(text, '\0');  // Open MPI 5.0.11 ends what it writes with one
  return take_lines(rest_, text, [this](const std::string& line) { return take_line(line); });
}

std::string ErrorOutput::take_line(const std::string& line) {
  const bool rule = is_rule(line);
  if (box_.empty() && !rule) {
    read_line(line);
    // What mpirun says of each signal that the supervisor sends it, and Open MPI of each collective
    // that a rank's death ends.
    const bool noise = line.starts_with("mpirun: Forwarding signal ") ||
                       line.starts_with("NBC_Progress: an error ");
    return noise ? std::string() : line + "\n";
  }
  box_.push_back(line);
  return rule && box_.size() > 1 ? close_box() : std::string();
}

std::string ErrorOutput::close_box() {
  const std::size_t known = by_launcher_.text.size();
  const std::string text = fmt::format("{}\n", fmt::join(box_, "\n"));
  // Where the lines break hangs on the version.
  const std::string words = fmt::format("{} ", fmt::join(box_, " "));
  box_.clear();
  static const std::regex kAboutTheEnd(
      "the job has been aborted|MPI_ABORT was invoked|calling +\"abort\"");
  read_box(words);
  const bool read = by_launcher_.text.size() != known;
  return read || std::regex_search(words, kAboutTheEnd) ? std::string() : text;
}

void ErrorOutput::read_box(const std::string& text) {
  static const std::regex kSignal(
      "process rank (\\d+) with PID \\d+ on node (\\S+) exited on signal (\\d+ \\([^)]*\\))");
  // Open MPI 4 writes a process as [[43013,1],3], Open MPI 5 as [prterun-node7-17@1,3].
  static const std::regex kStatus(
      "Process name: +\\[(?:\\[\\d+,\\d+\\]|[^, ]+),(\\d+)\\] +Exit code: +(\\d+)");
  static const std::regex kImproper("process rank (\\d+) with PID \\d+ on node (\\S+) exiting");
  static const std::regex kHost(
      "lost communication with .* Remote daemon: +\\[\\S+ on node (\\S+)");
  std::smatch found;
  if (std::regex_search(text, found, kHost))
    set_once(by_launcher_, fmt::format("host {} went away", found.str(1)));
  else if (std::regex_search(text, found, kSignal)) {
    // It may be one that the others have outlived, and ranks have other numbers since then.
    if (survivors_ > 0) return;
    set_once(by_launcher_,
             fmt::format(
                 "rank {} on {} was ended by signal {}", found.str(1), found.str(2), found.str(3)));
  } else if (std::regex_search(text, found, kStatus))
    set_once(by_launcher_,
             fmt::format("rank {} ended with exit code {}", found.str(1), found.str(2)));
  else if (std::regex_search(text, found, kImproper)) {
    deserted_ = true;
    set_once(by_launcher_,
             fmt::format("rank {} on {} left without leaving MPI", found.str(1), found.str(2)));
  }
}

void ErrorOutput::read_line(const std::string& line) {
  static const std::regex kRank("^\\[(rank \\d+ )[^\\]]*\\] error: ");
  static const std::regex kTask(
      "^srun: error: (\\S+): tasks? ([-,0-9]+): (Killed|Exited with exit code \\d+|"
      "Terminated|Segmentation fault|Aborted|Bus error|Floating point exception).*");
  // Between the two stands where the rank was, indented.
  if (hint_follows_ && step_ < 0) step_ = step_in(line);
  about_another_ |= hint_follows_ && line.find("seen by rank ") != std::string::npos;
  if (hint_follows_ && !line.starts_with("  ")) {
    hint_follows_ = false;
    if (line.starts_with("hint: ")) by_rank_.hint = line.substr(6);
  }
  static const std::regex kAbort(
      "^\\[([^:\\]]+):\\d+\\] \\*\\*\\* (An error occurred in (.+)|MPI_ERRORS_ARE_FATAL .*)");
  static const std::regex kSurvivors(
      "^\\[rank 0 [^\\]]*\\] warning: (\\d{1,6}) of \\d+ ranks are left");
  std::smatch found;
  if (std::regex_search(line, found, kSurvivors)) {
    survivors_ = std::stoi(found.str(1));
    aborted_by_mpi_ = deserted_ = about_another_ = false;
    by_rank_ = by_launcher_ = by_mpi_ = {};
    step_ = -1;
    dead_.clear();
    hint_follows_ = false;
  } else if (by_rank_.text.empty() && std::regex_search(line, found, kRank)) {
    by_rank_ = {.text = line, .hint = {}, .said = true};
    hint_follows_ = true;
    if (line.ends_with(kDiedWithoutAWord)) dead_ = found.str(1);
  } else if (std::regex_match(line, found, kTask)) {
    // Those that srun ended for the sake of the first are named as well.
    set_once(by_launcher_,
             fmt::format("rank {} on {}: {}", found.str(2), found.str(1), found.str(3)));
  } else if (std::regex_match(line, found, kAbort)) {
    if (found[3].matched)
      set_once(by_mpi_, fmt::format("MPI ended a rank on {}: {}", found.str(1), found.str(3)));
    else
      aborted_by_mpi_ = by_mpi_.text.find(": MPI_Init") == std::string::npos;
  }
}

std::string ErrorOutput::end() {
  std::string shown;
  if (!rest_.empty()) shown = take_line(std::exchange(rest_, {}));
  for (const std::string& line : box_) shown += line + "\n";
  box_.clear();
  return shown;
}

bool ErrorOutput::names_own_cause() const {
  // As a failed message of MPI or NCCL does.
  const auto blames_another = [](const std::string& text) {
    return text.find("another rank") != std::string::npos ||
           text.find("the first error in the run's logs") != std::string::npos;
  };
  return failed() && dead_.empty() && !about_another_ && !tells_of_silence(by_rank_.text) &&
         !blames_another(by_rank_.text) && !blames_another(by_rank_.hint);
}

ReportedFault ErrorOutput::fault() const {
  const std::string& told = by_launcher_.text;
  const bool confirmed = !dead_.empty() && told.starts_with(dead_);
  const bool launcher_knows = confirmed || (!dead_.empty() && told.starts_with("host "));
  ReportedFault fault = by_rank_.text.empty() || launcher_knows ? by_launcher_ : by_rank_;
  // Of such a rank mpirun knows the exit code at most.
  const bool mpi_knows =
      fault.text.empty() || fault.text.find(" ended with exit code ") != fault.text.npos;
  if (by_rank_.text.empty() && aborted_by_mpi_ && mpi_knows) fault = by_mpi_;
  fault.step = step_;
  fault.confirmed = confirmed;
  return fault;
}

std::string last_error_in(const std::string& file, std::size_t begin) {
  std::ifstream stream(file);
  stream.seekg(std::streamoff(begin));
  std::string found;
  for (std::string line; std::getline(stream, line);)
    if (const std::size_t at = line.find("error: "); at != line.npos) found = line.substr(at + 7);
  return found;
}

LabelledOutput::~LabelledOutput() {
  for (const auto& [rank, file] : files_)
    if (file >= 0) close(file);
}

std::string LabelledOutput::take(std::string_view piece) {
  return take_lines(rest_, piece, [this](const std::string& line) { return take_line(line); });
}

std::string LabelledOutput::end() {
  return rest_.empty() ? std::string() : take_line(std::exchange(rest_, {}));
}

std::string LabelledOutput::take_line(const std::string& line) {
  // The label is as wide as the largest rank: " 3: text".
  const std::size_t digits = std::min(line.find_first_not_of(' '), line.size());
  std::size_t colon = digits;
  while (colon < line.size() && std::isdigit(static_cast<unsigned char>(line[colon]))) ++colon;
  const bool labelled = colon > digits && line.compare(colon, 2, ": ") == 0;
  if (!labelled) return line + "\n";
  const std::string text = line.substr(colon + 2) + "\n";
  const int file = file_of(line.substr(digits, colon - digits));
  // Somewhere else to read the same: not worth an error.
  if (file >= 0 && ::write(file, text.data(), text.size()) < 0) return text;
  return text;
}

int LabelledOutput::file_of(const std::string& rank) {
  if (folder_.empty()) return -1;
  const auto known = files_.find(rank);
  if (known != files_.end()) return known->second;
  const std::filesystem::path folder = std::filesystem::path(folder_) / ("rank." + rank);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const int file =
      open((folder / stream_).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return files_[rank] = file;
}

}  // namespace lockstep
