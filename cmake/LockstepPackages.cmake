# What `cpack -G DEB` makes: lockstep (program, manual pages, completion) and liblockstep-dev (what a C++ program
# is compiled with). scripts/make_packages.sh calls it, and makes what needs no package manager.
set(LOCKSTEP_MAINTAINER "The Lockstep maintainers <maintainers@lockstep.invalid>" CACHE STRING
  "Who answers for the packages: name and address")

set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VENDOR Lockstep)
set(CPACK_PACKAGE_CONTACT "${LOCKSTEP_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "data-parallel training of neural networks")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_COMPONENTS_GROUPING IGNORE)

# One .deb a component. Two distributions' packages of one version have different names, since their libraries differ.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release lines REGEX "^(ID|VERSION_ID)=")
  string(REGEX REPLACE "(VERSION_)?ID=|\"" "" words "${lines}")
  list(JOIN words "" distribution)
  if(distribution MATCHES "^[a-z]+[0-9.]+$" OR distribution MATCHES "^[0-9.]+[a-z]+$")
    string(REGEX REPLACE "^([0-9.]+)([a-z]+)$" "\\2\\1" distribution ${distribution})
    set(CPACK_DEBIAN_PACKAGE_RELEASE "1~${distribution}")
  endif()
endif()

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME lockstep)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "One process for each GPU or CPU core, started by mpirun, by Slurm or by the \
program itself. Weights have the same bits on any number of ranks.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
if(LOCKSTEP_MPI)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS openmpi-bin)  # mpirun, which no library names
endif()

# The libraries are static: they are of the very versions of shared libraries that the program depends on,
# which no other field can say.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liblockstep-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "For C++ programs: headers, static libraries and what \
find_package(Lockstep) of CMake reads.")
set(needed
  "lockstep (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})"
  libfmt-dev nlohmann-json3-dev zlib1g-dev libjpeg-dev libpng-dev libssl-dev)
if(LOCKSTEP_ONEDNN)
  list(APPEND needed libdnnl-dev)
endif()
if(LOCKSTEP_MPI)
  list(APPEND needed libopenmpi-dev)
endif()
list(JOIN needed ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)

set(CPACK_LOCKSTEP_CHART_JS ${LOCKSTEP_CHART_JS})
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian_files.cmake)
include(CPack)
