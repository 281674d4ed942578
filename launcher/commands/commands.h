// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

/// The commands of the program; each takes the arguments after its name and returns the exit code.
/// Each throws ConfigError: flags that are unknown, missing or wrong.
namespace lockstep {

/// `lockstep train`: `arguments` are those after the command. Returns the exit code; errors that
/// this process alone met before it knew other ranks are thrown.
int train_command(const std::vector<std::string>& arguments);

/// `lockstep plan`: what `lockstep train` with the same flags would use, without running it: the
/// memory table, what fits --memory-limit, FLOPs and bytes on the wire. Returns the exit code.
/// Throws ConfigError: flags; DataError: --data; OutOfMemory: not even a micro-batch of 1 with full
/// recompute fits the limit (after everything else was printed).
int plan_command(const std::vector<std::string>& arguments);

/// `lockstep simulate`: the library's own training on many ranks in this process, over devices that
/// compute nothing; what of its checks holds, what ranks send, and predicted times. Returns 0, or 1
/// where a check failed. Throws ConfigError: flags; DataError: --data; EnvironmentError: the
/// timeline or the page cannot be written.
int simulate_command(const std::vector<std::string>& arguments);

/// `lockstep doctor`: looks at the machine as a run would find it and prints a line a subject, with
/// a remedy where something is wrong. Under a launcher all ranks look, and rank 0 says who stands
/// out. Returns 0, or 3 where a line failed.
int doctor_command(const std::vector<std::string>& arguments);

/// `lockstep run`: starts the ranks of a training through mpirun or srun and stands by them:
/// restarts from the newest checkpoint after a failure, hands on the wish to stop. Returns the exit
/// code. Throws ConfigError: flags, no --out; EnvironmentError: no launcher, a launcher around us.
int run_command(const std::vector<std::string>& arguments);

/// `lockstep scale`: runs a training on several numbers of ranks, one run after another, and writes
/// table, plot and predictions after each. Returns 0 where every run is done, 1 where one failed
/// or a signal ended them early. Throws ConfigError: flags, or --out holds something; what
/// launch_site() and choose_launcher() throw.
int scale_command(const std::vector<std::string>& arguments);

/// `lockstep sweep`: trains once with each of several values of settings, in turn or side by side,
/// and compares the runs. Started again, it continues with what is not done. Returns 0 where every
/// run is done, 1 where one failed, 75 where a signal ended it early. Throws ConfigError: flags, or
/// --out holds something else; EnvironmentError: this process is a rank of a launcher.
int sweep_command(const std::vector<std::string>& arguments);

/// `lockstep report RUN...`: one HTML file about one run, or about several on top of one another,
/// that needs no network. Returns 0. Throws ConfigError: flags, more runs than a page takes, an
/// output that is there already; DataError: a folder that holds no run, or damaged metrics;
/// EnvironmentError: the output cannot be written. Changes nothing in a run's folder but for the
/// page, which lies in the first run's unless --out says otherwise.
int report_command(const std::vector<std::string>& arguments);

/// `lockstep status RUN...`: how runs stand, as their folders say. Returns 0. Throws ConfigError:
/// flags; DataError: a folder that holds no run, or damaged metrics.
int status_command(const std::vector<std::string>& arguments);

/// `lockstep pack`: writes an image folder as one file for --data packed:FILE. Returns the exit
/// code. Throws what pack_images() throws.
int pack_command(const std::vector<std::string>& arguments);

/// `lockstep tokenize`: writes texts as tokens for --data tokens:DIR, by a tokenizer that it trains
/// or reads. Returns the exit code. Throws what the functions of core/io/tokenizer/tokenize.h and
/// io::read_tokenizer() throw.
int tokenize_command(const std::vector<std::string>& arguments);

/// Loss, accuracy and further metrics of a saved run, or of a file of weights, on the validation
/// part of its data (or of --data), on one rank or as many as a launcher started.
int evaluate_command(const std::vector<std::string>& arguments);

/// One line for each image, row of a table or text that is named: the likeliest classes, or
/// numbers. Without any, one for each sample of the validation part, with its label.
int predict_command(const std::vector<std::string>& arguments);

/// Text that a gpt continues.
int generate_command(const std::vector<std::string>& arguments);

/// Writes the weights of a run or a checkpoint as one safetensors file, and their record next to
/// it.
int export_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
