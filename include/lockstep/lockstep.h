// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The C++ interface of Lockstep in one header.
#include "core/base/error.h"
#include "core/data/loader.h"
#include "core/data/preprocessing.h"
#include "core/data/sources.h"
#include "core/exec/predictor.h"
#include "core/io/preprocessing_file.h"
#include "core/nn/builder.h"
#include "core/nn/zoo.h"
#include "core/optim/lr_schedule.h"
#include "core/optim/optimizer.h"
#include "parallel/batch/training_feed.h"
#include "parallel/console/progress.h"
#include "parallel/replica/replica.h"
#include "parallel/session/job.h"
#include "parallel/session/run_job.h"
#include "parallel/training/trainer.h"
