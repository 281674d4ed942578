// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/rank_discovery.h"

#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep {
namespace {

/// What one launcher says.
struct Claim {
  int rank = 0;
  int size = 0;  ///< 0: not said
  int local_rank = -1;
  std::string rank_variable;
  std::string launcher;
};

std::optional<std::string> find(const VariableMap& variables, const std::string& name) {
  const auto it = variables.find(name);
  if (it == variables.end() || it->second.empty()) return std::nullopt;
  return it->second;
}

std::optional<std::int64_t> number(const VariableMap& variables, const std::string& name) {
  const std::optional<std::string> text = find(variables, name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value < 0 || value > INT32_MAX) {
    throw EnvironmentError(fmt::format("{} is '{}', expected a whole number from 0", name, *text),
                           "unset it, or let mpirun or srun set it");
  }
  return value;
}

struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
};

constexpr Names kExplicit{"by hand", "LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE", "LOCKSTEP_LOCAL_RANK"};
constexpr Names kTorchrun{"torchrun-style variables", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kMpi[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI launcher", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"MVAPICH launcher", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
};

std::optional<Claim> read_claim(const VariableMap& variables, const Names& names) {
  const auto rank = number(variables, names.rank);
  const auto size = number(variables, names.size);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    throw EnvironmentError(fmt::format("{} is set but {} is not",
                                       rank ? names.rank : names.size,
                                       rank ? names.size : names.rank),
                           "set both or neither");
  }
  if (*rank >= *size) {
    throw EnvironmentError(fmt::format(
        "{} is {} but {} is {}: ranks count from 0", names.rank, *rank, names.size, *size));
  }
  Claim claim;
  claim.rank = int(*rank);
  claim.size = int(*size);
  claim.local_rank = int(number(variables, names.local_rank).value_or(-1));
  claim.rank_variable = names.rank;
  claim.launcher = names.launcher;
  return claim;
}

/// Both names are common words, so that only the pair counts.
std::optional<Claim> torchrun_claim(const VariableMap& variables) {
  if (!find(variables, "RANK") || !find(variables, "WORLD_SIZE")) return std::nullopt;
  return read_claim(variables, kTorchrun);
}

/// Whether srun itself started this process. Batch scripts and the shell of `salloc` have Slurm's
/// variables too; Slurm numbers their steps from 0xfffffffa on, or not at all.
bool in_srun_step(const VariableMap& variables) {
  constexpr std::int64_t kFirstSpecialStep = 0xfffffffa;
  const std::optional<std::string> step = find(variables, "SLURM_STEP_ID");
  if (!step) return false;
  std::int64_t id = kFirstSpecialStep;
  const char* end = step->data() + step->size();
  const auto [stop, error] = std::from_chars(step->data(), end, id);
  return error == std::errc() && stop == end && id >= 0 && id < kFirstSpecialStep;
}

int slurm_tasks(const VariableMap& variables) {
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"})
    if (const auto tasks = number(variables, name)) return int(*tasks);
  return 0;
}

std::optional<Claim> slurm_claim(const VariableMap& variables) {
  if (!in_srun_step(variables)) return std::nullopt;
  const auto rank = number(variables, "SLURM_PROCID");
  const int size = slurm_tasks(variables);
  if (!rank || size == 0) return std::nullopt;
  if (*rank >= size) {
    throw EnvironmentError(
        fmt::format("SLURM_PROCID is {} but the step has {} tasks", *rank, size));
  }
  Claim claim;
  claim.rank = int(*rank);
  claim.size = size;
  claim.local_rank = int(number(variables, "SLURM_LOCALID").value_or(-1));
  claim.rank_variable = "SLURM_PROCID";
  claim.launcher = "srun";
  return claim;
}

/// PMIx tells the rank alone; under srun, Slurm knows the rest.
std::optional<Claim> pmix_claim(const VariableMap& variables) {
  const auto rank = number(variables, "PMIX_RANK");
  if (!rank) return std::nullopt;
  Claim claim;
  claim.rank = int(*rank);
  claim.rank_variable = "PMIX_RANK";
  claim.launcher = "PMIx launcher";
  if (const auto slurm = slurm_claim(variables); slurm && slurm->rank == claim.rank) {
    claim.size = slurm->size;
    claim.local_rank = slurm->local_rank;
    claim.launcher = "srun";
  }
  return claim;
}

std::optional<Claim> mpi_claim(const VariableMap& variables) {
  for (const Names& names : kMpi)
    if (auto claim = read_claim(variables, names)) return claim;
  return pmix_claim(variables);
}

void check_agreement(const std::optional<Claim>& a, const std::optional<Claim>& b) {
  if (!a || !b) return;
  const bool sizes_agree = a->size == 0 || b->size == 0 || a->size == b->size;
  if (a->rank == b->rank && sizes_agree) return;
  const auto describe = [](const Claim& claim) {
    return claim.size == 0
               ? fmt::format("{} says rank {}", claim.rank_variable, claim.rank)
               : fmt::format("{} says rank {} of {}", claim.rank_variable, claim.rank, claim.size);
  };
  throw EnvironmentError(fmt::format("contradicting ranks: {}, {}", describe(*a), describe(*b)),
                         fmt::format("unset {} or {}", a->rank_variable, b->rank_variable));
}

void check_connected(const RankDiscovery& result, const Claim& claim) {
  if (result.size <= 1) return;
  if (result.launched_by == LaunchedBy::slurm_only) {
    throw EnvironmentError(
        fmt::format("srun started {} tasks without a process manager that connects them (no "
                    "PMIX_RANK, no PMI_RANK)",
                    result.size),
        "use: srun --mpi=pmix lockstep ...");
  }
  if (result.launched_by == LaunchedBy::variables) {
    throw EnvironmentError(
        fmt::format("{} says rank {} of {}, but no MPI launcher started this process, and Lockstep "
                    "connects ranks by MPI",
                    claim.rank_variable,
                    claim.rank,
                    result.size),
        fmt::format("use: mpirun -np {} lockstep ..., or srun --mpi=pmix lockstep ...",
                    result.size));
  }
}

}  // namespace

RankDiscovery discover_rank(const VariableMap& variables) {
  const auto by_hand = read_claim(variables, kExplicit);
  const auto torchrun = torchrun_claim(variables);
  const auto mpi = mpi_claim(variables);
  const auto slurm = slurm_claim(variables);
  check_agreement(by_hand, torchrun);
  check_agreement(by_hand, mpi);
  check_agreement(torchrun, mpi);

  RankDiscovery result;
  result.slurm_allocation =
      find(variables, "SLURM_JOB_ID").has_value() || find(variables, "SLURM_JOBID").has_value();
  const std::optional<Claim>& claim = by_hand ? by_hand : torchrun ? torchrun : mpi ? mpi : slurm;
  if (!claim) {
    result.source = "alone";
    if (result.slurm_allocation && slurm_tasks(variables) > 1)
      result.slurm_tasks_unused = slurm_tasks(variables);
    return result;
  }
  result.rank = claim->rank;
  result.size = claim->size != 0 ? claim->size : mpi ? mpi->size : 0;
  result.local_rank = claim->local_rank >= 0 ? claim->local_rank : mpi ? mpi->local_rank : -1;
  result.source = fmt::format("{} ({})", claim->launcher, claim->rank_variable);
  result.launched_by = mpi                   ? LaunchedBy::mpi
                       : by_hand || torchrun ? LaunchedBy::variables
                                             : LaunchedBy::slurm_only;
  check_connected(result, *claim);
  return result;
}

int launched_rank(const VariableMap& variables) {
  const bool srun = in_srun_step(variables);
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    if (std::string_view(name) == "SLURM_PROCID" && !srun) continue;
    try {
      if (const auto rank = number(variables, name)) return int(*rank);
    } catch (const EnvironmentError&) {
      // The next one may be a number.
    }
  }
  return 0;
}

void check_against_mpi(const RankDiscovery& discovery,
                       int mpi_rank,
                       int mpi_size,
                       const std::function<std::string()>& library) {
  const bool sizes_agree = discovery.size == 0 || discovery.size == mpi_size;
  if (discovery.rank == mpi_rank && sizes_agree) return;
  throw EnvironmentError(
      fmt::format("{} says rank {} of {}, but MPI says rank {} of {}",
                  discovery.source,
                  discovery.rank,
                  discovery.size,
                  mpi_rank,
                  mpi_size),
      mpi_size == 1 && discovery.size > 1
          ? fmt::format("the launcher and the MPI library do not fit each other: "
                        "use the mpirun of the MPI that Lockstep was built with"
                        "{}",
                        library ? library() : std::string())
          : "unset rank variables that were set by hand");
}

}  // namespace lockstep
