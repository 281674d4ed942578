# Run by CPack on what it has installed, before it makes the .debs: files where Debian has them, and as Debian
# packs them.
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
  # Every Debian has the text of the licence.
  file(REMOVE ${share}/doc/lockstep/LICENSE)
  file(WRITE ${share}/doc/${package}/copyright
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: lockstep

Files: *
Copyright: The Lockstep maintainers
License: Apache-2.0

License: Apache-2.0
 On Debian systems, the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")
endforeach()
