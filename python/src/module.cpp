// SPDX-License-Identifier: MIT
#include "convert.hpp"
#include "vkformer/devices.hpp"
#include "vkformer/vkformer.h"

using namespace vkformer;
using namespace vkformer::python;

NB_MODULE(_core, module) {
    // A stream that is left open when the interpreter ends keeps its model, which is no mistake of the caller's.
    nb::set_leak_warnings(false);

    const std::uint32_t version = vkf_version();
    module.attr("version") = std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
                             std::to_string(VK_API_VERSION_MINOR(version)) + "." +
                             std::to_string(VK_API_VERSION_PATCH(version));

    nb::class_<Stop>(module, "Stop").def(nb::init<>()).def("set", &Stop::set).def("is_set", &Stop::is_set);

    nb::class_<CommonOptions>(module, "CommonOptions")
        .def(
            "__init__",
            [](CommonOptions* self, const nb::str& device, bool f16, bool plain_shaders,
               std::map<std::string, std::string> shader_variants, std::uint64_t offload_bytes) {
                new (self) CommonOptions{.device = text_of(device),
                                         .f16 = f16,
                                         .plain_shaders = plain_shaders,
                                         .shader_variants = std::move(shader_variants),
                                         .offload_bytes = offload_bytes};
            },
            nb::arg("device"), nb::arg("f16"), nb::arg("plain_shaders"), nb::arg("shader_variants"),
            nb::arg("offload_bytes"));

    module.def("devices", [] {
        const auto found = value_of([] {
            nb::gil_scoped_release no_gil;
            return find_devices();
        }());
        nb::list devices;
        for (const DeviceDescription& d : found)
            devices.append(nb::make_tuple(d.index, text(d.name), text(d.type), text(d.driver), text(d.uuid),
                                          text(d.vulkan), text(d.unusable)));
        return devices;
    });

    bind_translator(module);
    bind_generator(module);
    bind_encoders(module);
    bind_images(module);
    bind_transcriber(module);
    bind_graph(module);
}
