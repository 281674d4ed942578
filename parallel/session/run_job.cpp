// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <exception>

#include "lockstep/job.h"
#include "parallel/session/error_consensus.h"
#include "parallel/session/error_report.h"

namespace lockstep {

int run_job(int argc,
            char** argv,
            const std::function<void(Job&)>& body,
            const WatchLimits& limits) {
  // A reader of our output that goes away must not end the training.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    Job job(argc, argv, limits);
    ErrorConsensus meeting(job);
    try {
      body(job);
      return 0;
    } catch (...) {
      return meeting.report(std::current_exception());
    }
  } catch (...) {
    return report_alone(std::current_exception());
  }
}

}  // namespace lockstep
