# Run by CPack on what it has installed, before it makes the .debs: files where Debian has them, and as Debian
# packs them.
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/LockstepChartNotice.cmake)
file(GLOB folders LIST_DIRECTORIES true ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(folder ${folders})
  cmake_path(GET folder FILENAME component)
  set(share ${folder}/usr/share)
  if(NOT IS_DIRECTORY ${folder}/usr)
    continue()
  endif()

  # Debian's zsh looks there, and in site-functions only below /usr/local.
  if(IS_DIRECTORY ${share}/zsh/site-functions)
    file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  endif()
  file(GLOB pages ${share}/man/man1/*.1)
  if(pages)
    execute_process(COMMAND gzip --no-name --best --force ${pages} COMMAND_ERROR_IS_FATAL ANY)
  endif()

  if(component STREQUAL "development")
    set(package liblockstep-dev)
  else()
    set(package lockstep)
  endif()
  # The charting library, which the program holds.
  set(library "")
  if(CPACK_LOCKSTEP_CHART_JS AND component STREQUAL "runtime")
    lockstep_chart_notice(${CPACK_LOCKSTEP_CHART_JS} copyright comment)
    string(REGEX REPLACE "^\\([cC]\\) ?" "" copyright "${copyright}")
    # Each line is indented, and an empty one has a dot.
    file(READ ${CMAKE_CURRENT_LIST_DIR}/mit_license.txt mit)
    string(STRIP "${mit}" mit)
    string(REPLACE "\n" "\n " mit " ${mit}")
    string(REPLACE "\n \n" "\n .\n" mit "${mit}")
    set(library "
Files: usr/bin/lockstep
Copyright: The Lockstep maintainers
 ${copyright}
License: Apache-2.0 and Expat
Comment: The pages that lockstep report writes carry Chart.js.

License: Expat
${mit}
")
  endif()
  # Every Debian has the text of the licence.
  file(REMOVE ${share}/doc/lockstep/LICENSE)
  file(WRITE ${share}/doc/${package}/copyright
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: lockstep

Files: *
Copyright: The Lockstep maintainers
License: Apache-2.0
${library}
License: Apache-2.0
 On Debian systems, the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")
endforeach()
