// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether NCCL does on one rank what training asks of it, each step by itself:
///
///   nccl_probe [--library FILE] [--step-seconds N]
///
/// opens NCCL, joins two communicators without blocking, moves data through both (an all-gather on
/// one stream, a send and a receive to itself on another), captures that as one graph, replays it,
/// destroys one communicator, aborts the other. FILE is opened instead of libnccl.so.2. Prints a
/// line for each step, and "result: ..." last. Exit code 1 where a step fails or takes longer than
/// N seconds (default 60), which the line names; 2 for unknown options.
int run_nccl_probe(int argc, char** argv);
