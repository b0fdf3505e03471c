# vkformer_add_shaders(target MANIFEST file TABLE function): compiles what a manifest in this folder lists into an object library,
# with vkformer::vulkan::<function>(), the table of all its modules.
include(VkformerGlslang)
# Debian: xz-utils, which dpkg-dev depends on.
find_program(VKFORMER_XZ xz REQUIRED)
mark_as_advanced(VKFORMER_XZ)
# Names serve those who debug shaders; without spirv-opt (Debian: spirv-tools) every build keeps them.
find_program(VKFORMER_SPIRV_OPT spirv-opt)
# Debian: glslang-tools; the library is smaller with it.
find_program(VKFORMER_SPIRV_REMAP spirv-remap)
mark_as_advanced(VKFORMER_SPIRV_OPT VKFORMER_SPIRV_REMAP)
set(strip_shaders)
if(VKFORMER_SPIRV_OPT AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(strip_shaders -D SPIRV_OPT=${VKFORMER_SPIRV_OPT})
    if(VKFORMER_SPIRV_REMAP)
        list(APPEND strip_shaders -D SPIRV_REMAP=${VKFORMER_SPIRV_REMAP})
    endif()
endif()

# The bits of ShaderBinary::requires_mask, lowest first; runtime/vulkan/shader_table.h gives them the same order.
set(known_requirements storage16 storage8 float16 int_dot subgroup coopmat coopmat2 int64 shuffle addresses)

function(vkformer_add_shaders target)
    cmake_parse_arguments(PARSE_ARGV 1 argument "" "MANIFEST;TABLE" "")
    set(manifest_file ${CMAKE_CURRENT_SOURCE_DIR}/${argument_MANIFEST})
    set(shown shaders/${argument_MANIFEST})
    set(table_function ${argument_TABLE})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifest_file})
    file(READ ${manifest_file} manifest)
    string(JSON manifest_length LENGTH "${manifest}")
    math(EXPR manifest_last "${manifest_length} - 1")
    if(manifest_last LESS 0)
        message(FATAL_ERROR "${shown} lists no shaders")
    endif()

    set(binaries_dir ${CMAKE_CURRENT_BINARY_DIR}/spv)
    file(MAKE_DIRECTORY ${binaries_dir})
    set(names)
    set(shader_sources)
    set(sources)
    set(lacking_rungs)
    set(lacking_count 0)
    set(declarations)
    set(entries)
    foreach(index RANGE ${manifest_last})
        string(JSON name GET "${manifest}" ${index} name)
        string(JSON source GET "${manifest}" ${index} source)
        if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
            message(FATAL_ERROR "${shown}: \"${name}\" is no name for a shader (lower case, digits, underscores)")
        endif()
        if(name IN_LIST names)
            message(FATAL_ERROR "${shown}: two entries have the name \"${name}\"")
        endif()
        list(APPEND names ${name})
        if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
            message(FATAL_ERROR "${shown}: ${name}: there is no shaders/${source}")
        endif()

        set(mask 0)
        set(missing)
        string(JSON count ERROR_VARIABLE absent LENGTH "${manifest}" ${index} requires)
        if(NOT absent AND count GREATER 0)
            math(EXPR last "${count} - 1")
            foreach(i RANGE ${last})
                string(JSON requirement GET "${manifest}" ${index} requires ${i})
                list(FIND known_requirements "${requirement}" bit)
                if(bit LESS 0)
                    list(JOIN known_requirements ", " known)
                    message(FATAL_ERROR
                        "${shown}: ${name} requires \"${requirement}\", known are: ${known}")
                endif()
                math(EXPR mask "${mask} | (1 << ${bit})")
                if(requirement IN_LIST VKFORMER_GLSLANG_LACKS)
                    list(APPEND missing ${requirement})
                endif()
            endforeach()
        endif()
        # Vulkan 1.2 is the floor; glslang takes cooperative matrix 2 only for SPIR-V 1.6, which is Vulkan 1.3.
        set(target_env vulkan1.2)
        math(EXPR needs_coopmat2 "${mask} & (1 << 6)")
        if(needs_coopmat2)
            set(target_env vulkan1.3)
        endif()
        if(missing)
            list(APPEND lacking_rungs ${missing})
            math(EXPR lacking_count "${lacking_count} + 1")
            continue()
        endif()

        set(defines)
        string(JSON count ERROR_VARIABLE absent LENGTH "${manifest}" ${index} defines)
        if(NOT absent AND count GREATER 0)
            math(EXPR last "${count} - 1")
            foreach(i RANGE ${last})
                string(JSON define GET "${manifest}" ${index} defines ${i})
                list(APPEND defines -D${define})
            endforeach()
        endif()

        set(binary ${binaries_dir}/${name}.spv)
        add_custom_command(
            OUTPUT ${binary}
            COMMAND ${VKFORMER_GLSLANG_EXECUTABLE} --quiet -V --target-env ${target_env} -I${CMAKE_CURRENT_SOURCE_DIR}
                ${defines} --depfile ${binary}.d -o ${binary} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
            DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${VKFORMER_GLSLANG_EXECUTABLE}
            DEPFILE ${binary}.d
            COMMENT "Compiling shader ${name}"
            VERBATIM
        )
        list(APPEND sources ${source})
        list(APPEND binaries_of_${source} ${binary})
        string(APPEND declarations "extern const EmbeddedModule ${name};\n")
        string(APPEND entries "        {\"${name}\", spirv::${name}, ${mask}u},\n")
    endforeach()

    # All modules of a source lie in one compressed array.
    list(REMOVE_DUPLICATES sources)
    foreach(source IN LISTS sources)
        get_filename_component(stem ${source} NAME_WE)
        set(embedded ${binaries_dir}/${stem}_comp.cpp)
        string(REPLACE ";" "," binaries "${binaries_of_${source}}")
        add_custom_command(
            OUTPUT ${embedded}
            COMMAND ${CMAKE_COMMAND} -D BINARIES=${binaries} -D OUTPUT=${embedded} -D XZ=${VKFORMER_XZ} ${strip_shaders}
                -P ${PROJECT_SOURCE_DIR}/cmake/EmbedShader.cmake
            DEPENDS ${binaries_of_${source}} ${PROJECT_SOURCE_DIR}/cmake/EmbedShader.cmake
            COMMENT "Embedding the modules of ${source}"
            VERBATIM
        )
        list(APPEND shader_sources ${embedded})
    endforeach()

    if(lacking_rungs)
        list(REMOVE_DUPLICATES lacking_rungs)
        list(JOIN lacking_rungs ", " rungs)
        message(STATUS "vkformer: glslang ${VKFORMER_GLSLANG_VERSION} is too old for: ${rungs}. "
            "${lacking_count} shader variants are left out; scripts/setup.sh builds a newer glslang")
    endif()

    set(shader_table ${CMAKE_CURRENT_BINARY_DIR}/${target}_table.cpp)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/shader_table.cpp.in ${shader_table} @ONLY)

    add_library(${target} OBJECT ${shader_sources} ${shader_table})
    target_compile_features(${target} PUBLIC cxx_std_20)
    set_target_properties(${target} PROPERTIES
        POSITION_INDEPENDENT_CODE ON
        CXX_EXTENSIONS OFF
        CXX_VISIBILITY_PRESET hidden
        VISIBILITY_INLINES_HIDDEN ON
    )
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/runtime ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${target} PRIVATE Vulkan::Headers)
endfunction()
