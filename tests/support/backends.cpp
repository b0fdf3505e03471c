// SPDX-License-Identifier: MIT
#include "support/backends.hpp"

#include "cpu/backend.hpp"

namespace vkformer::tests {

const std::vector<graph::Backend*>& test_backends() {
    static const std::unique_ptr<graph::Backend> cpu_float = cpu::make_cpu_backend<float>();
    static const std::unique_ptr<graph::Backend> cpu_double = cpu::make_cpu_backend<double>();
    static const std::vector<graph::Backend*> backends = {cpu_float.get(), cpu_double.get()};
    return backends;
}

}   // namespace vkformer::tests
