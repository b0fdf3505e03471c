# Writes vkformer.pc and installs it. It finds itself (pcfiledir), so that the installed tree may be moved. What a shared vkformer
# links is its own affair; who links a static one asks `pkg-config --static`.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")

set(pc_requires_private)
set(pc_libs_private)
if(NOT BUILD_SHARED_LIBS)
    get_property(pc_requires_private GLOBAL PROPERTY VKFORMER_PKG_CONFIG_MODULES)
    list(JOIN pc_requires_private " " pc_requires_private)
    set(pc_libs_private "-lsentencepiece -pthread -lstdc++ -lm")
    foreach(library IN LISTS CMAKE_DL_LIBS)
        string(APPEND pc_libs_private " -l${library}")
    endforeach()
endif()

# Vulkan's headers have no .pc of their own: Debian's vulkan.pc links the loader. Where a cross-build finds them is no
# place of the machine that it is for.
set(pc_vulkan_cflags)
set(vulkan_include_dirs)
if(NOT CMAKE_CROSSCOMPILING)
    get_target_property(vulkan_include_dirs Vulkan::Headers INTERFACE_INCLUDE_DIRECTORIES)
endif()
foreach(dir IN LISTS vulkan_include_dirs)
    if(NOT dir IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
        string(APPEND pc_vulkan_cflags " -I${dir}")
    endif()
endforeach()

configure_file(${PROJECT_SOURCE_DIR}/cmake/vkformer.pc.in ${CMAKE_CURRENT_BINARY_DIR}/vkformer.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vkformer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
