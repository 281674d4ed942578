// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Who ended a job, as far as its output tells.
struct ReportedFault {
  std::string text;  ///< "[rank 1 node7] error: ...", or what the launcher says; empty: unknown
  std::string hint;
  bool said = false;       ///< the rank itself has said so, on the output that was passed on
  bool confirmed = false;  ///< the launcher knows what a rank died of that others miss
  std::int64_t step = -1;  ///< of the first rank that is reported; -1: unknown
};

/// What a launcher and its ranks write to standard error, line by line: finds the first error
/// record of a rank (what peers say later are its consequences), else what mpirun or srun say of
/// a rank that could not speak any more, and keeps mpirun's boxes about that off the screen. Of a
/// rank that died the launcher knows more (the signal, its host's end) than the peers that miss it.
class ErrorOutput {
 public:
  /// Takes a piece of the stream; returns what is to be shown of it.
  std::string take(std::string_view piece);
  /// The rest, once the stream has ended.
  std::string end();
  ReportedFault fault() const;
  /// A rank has said why it ends, or the launcher of one.
  bool reports() const { return failed() || !by_launcher_.text.empty(); }
  /// A rank has said why it ends.
  bool failed() const { return !by_rank_.text.empty(); }
  /// How many ranks have outlived the deaths of others and continue, as they say themselves; 0:
  /// nothing of that. What was reported before is then no reason of the job's end.
  int survivors() const { return survivors_; }
  /// mpirun has ended the job because a rank left it without a word, though with exit code 0.
  bool deserted() const { return deserted_; }
  /// Open MPI itself has ended a rank that had initialised it, with a code of MPI's errors.
  bool aborted_by_mpi() const { return aborted_by_mpi_; }
  /// The first error record is about the rank that wrote it, not about another one that it misses.
  bool names_own_cause() const;

 private:
  std::string take_line(const std::string& line);
  std::string close_box();
  void read_box(const std::string& text);
  void read_line(const std::string& line);

  std::string rest_;                     // of a line that has not ended
  std::vector<std::string> box_;         // of mpirun, with its two rules; empty outside
  ReportedFault by_rank_, by_launcher_;  // the first of each
  ReportedFault by_mpi_;                 // known where no other is
  std::int64_t step_ = -1;
  bool hint_follows_ = false, about_another_ = false;
  bool deserted_ = false, aborted_by_mpi_ = false;
  int survivors_ = 0;
  std::string dead_;  // "rank 1 ", where the first record is a peer's of a rank that died
};

/// The last error that a file of such output names from byte `begin` on, without "error: "; empty:
/// none, or no file.
std::string last_error_in(const std::string& file, std::size_t begin = 0);

/// The lines of srun --label: "1: text". Copies the text of each task to a file of its own.
class LabelledOutput {
 public:
  /// Files are FOLDER/rank.1/STREAM; an empty `folder` writes none.
  LabelledOutput(std::string folder, std::string stream)
      : folder_(std::move(folder)), stream_(std::move(stream)) {}
  ~LabelledOutput();
  LabelledOutput(const LabelledOutput&) = delete;
  LabelledOutput& operator=(const LabelledOutput&) = delete;

  /// Takes a piece of the stream and returns it without labels.
  std::string take(std::string_view piece);
  std::string end();

 private:
  std::string take_line(const std::string& line);
  int file_of(const std::string& rank);

  std::string folder_, stream_;
  std::string rest_;
  std::map<std::string, int> files_;  // descriptor of each rank; -1: could not be opened
};

}  // namespace lockstep
