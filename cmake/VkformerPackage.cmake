# A package of what `cmake --install` installs: `cpack` in the build folder makes a Debian package, for Windows a zip.
set(CPACK_PACKAGE_NAME vkformer)
set(CPACK_PACKAGE_VENDOR "vkformer contributors")
set(CPACK_PACKAGE_CONTACT "vkformer contributors <noreply@example.org>")   # cpack -D CPACK_PACKAGE_CONTACT=… says who it is
set(CPACK_STRIP_FILES ON)   # programs and shared libraries; a static one keeps its symbols

if(WIN32)
    set(CPACK_GENERATOR ZIP)
    set(CPACK_PACKAGE_FILE_NAME ${PROJECT_NAME}-${PROJECT_VERSION}-windows-x86_64)
    install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.txt)
    # Of what is linked into the program and the DLL; Catch2 is the tests' alone.
    if(VKFORMER_WINDOWS_PREFIX)
        install(DIRECTORY ${VKFORMER_WINDOWS_PREFIX}/share/licenses DESTINATION ${CMAKE_INSTALL_DOCDIR}
            PATTERN catch2 EXCLUDE)
    endif()
    include(CPack)
    return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)   # and with it the call of ldconfig
# For another machine its libraries and what dpkg knows of them are in a folder (scripts/setup.sh makes arm64's). The
# tools learn of it by their environment, which a file sets that cpack reads.
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
    set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
        ${CMAKE_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE} ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
    set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package_environment.cmake)
    file(WRITE ${CPACK_PROJECT_CONFIG_FILE}
        "set(ENV{DEB_HOST_ARCH} arm64)\nset(ENV{DPKG_ADMINDIR} ${CMAKE_SYSROOT}/var/lib/dpkg)\n")
endif()
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"The library (C and C++), its headers, its CMake and pkg-config files, the
vkformer program and a small model. Runs transformers through Vulkan compute
shaders, on a device of its own or in the command buffers of an application.")
# What dpkg-shlibdeps cannot see: the headers, and what a static library has its users link.
set(CPACK_DEBIAN_PACKAGE_DEPENDS libvulkan-dev)
if(NOT BUILD_SHARED_LIBS)
    get_property(debian_packages GLOBAL PROPERTY VKFORMER_DEBIAN_PACKAGES)
    list(JOIN debian_packages ", " debian_packages)
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", nlohmann-json3-dev, libsentencepiece-dev, ${debian_packages}")
endif()
# The loader is opened at run time, and a driver is the user's choice.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libvulkan1, mesa-vulkan-drivers | vulkan-icd")

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
include(CPack)
