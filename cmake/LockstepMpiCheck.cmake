# The mpirun that is found must be of the MPI whose headers are: ranks that another one starts do not find each
# other. Where one of both does not say what it is, nothing is compared.
include(LockstepHeaderVersions)
set(headers "")
foreach(folder ${MPI_CXX_INCLUDE_DIRS})
  lockstep_defined(major ${folder}/mpi.h OMPI_MAJOR_VERSION)
  lockstep_defined(minor ${folder}/mpi.h OMPI_MINOR_VERSION)
  lockstep_defined(mpich ${folder}/mpi.h MPICH_VERSION)
  if(NOT major STREQUAL "")
    set(headers "Open MPI ${major}.${minor}")
    set(header ${folder}/mpi.h)
    break()
  elseif(NOT mpich STREQUAL "")
    set(headers "MPICH ${mpich}")
    set(header ${folder}/mpi.h)
    break()
  endif()
endforeach()
set(starter "")
if(MPIEXEC_EXECUTABLE)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE text ERROR_VARIABLE text TIMEOUT 20)
  if(text MATCHES "\\(Open MPI\\) ([0-9]+)\\.([0-9]+)")
    set(starter "Open MPI ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
  elseif(text MATCHES "HYDRA[^0-9]*Version: *([0-9.]+)")
    set(starter "MPICH ${CMAKE_MATCH_1}")
  endif()
endif()
# "Open MPI 4" of both: a minor version may differ.
string(REGEX MATCH "^[^0-9]*[0-9]+" header_kind "${headers}")
string(REGEX MATCH "^[^0-9]*[0-9]+" starter_kind "${starter}")
if(headers AND starter AND NOT header_kind STREQUAL starter_kind)
  message(FATAL_ERROR "two kinds of MPI: ${header} is of ${headers}, but ${MPIEXEC_EXECUTABLE} is of ${starter}, "
    "whose ranks would each be alone.\n"
    "Wanted: both of one. Either the mpirun of ${headers}: -DMPIEXEC_EXECUTABLE=... and first on PATH (module load, or "
    "update-alternatives --config mpirun); or the headers of ${starter}: -DMPI_CXX_COMPILER=... of its mpicxx; or neither: "
    "-DLOCKSTEP_MPI=OFF (one rank alone)")
endif()

# Of tests that start more ranks than there are cores: MPICH's mpiexec does so unasked.
set(LOCKSTEP_MPIEXEC_OPTIONS --oversubscribe)
if(starter MATCHES "^MPICH")
  set(LOCKSTEP_MPIEXEC_OPTIONS "")
endif()
