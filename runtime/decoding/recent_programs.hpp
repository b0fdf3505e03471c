// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "core/try.hpp"
#include "graph/program.hpp"

namespace vkformer::decoding {

/// Programs of whole passes, made when one of their size is asked for; the last kKept are there. `Key` has ==, `Tensors` a member `graph`.
template <class Key, class Tensors, std::size_t kKept = 6>
class RecentPrograms {
public:
    struct Prepared {
        Key key;
        Tensors tensors;  ///< without the graph's nodes, which the program has
        std::unique_ptr<graph::Program> program;
    };

    RecentPrograms(graph::Backend& backend, std::shared_ptr<graph::TensorStore> weights)
        : backend_(&backend), weights_(std::move(weights)) {}

    const std::shared_ptr<graph::TensorStore>& weights() const noexcept { return weights_; }

    /// Stays as it is until so many others were asked for. Errors: those of `make`, which returns Result<Tensors>, and Backend::compile.
    template <class Make>
    Result<Prepared*> get(const Key& key, const Make& make) {
        const auto known = std::ranges::find_if(prepared_, [&](const Prepared& one) { return one.key == key; });
        if (known != prepared_.end()) {
            prepared_.splice(prepared_.begin(), prepared_, known);
            return &prepared_.front();
        }
        if (prepared_.size() == kKept) prepared_.pop_back();
        Prepared made{.key = key, .tensors = {}, .program = nullptr};
        VKFORMER_TRY(made.tensors, make());
        VKFORMER_TRY(made.program, backend_->compile(graph::make_plan_for(*backend_, std::move(made.tensors.graph)),
                                                     weights_, backend_->make_store()));
        prepared_.push_front(std::move(made));
        return &prepared_.front();
    }

private:
    graph::Backend* backend_;
    std::shared_ptr<graph::TensorStore> weights_;
    std::list<Prepared> prepared_;  // the last used first
};

}  // namespace vkformer::decoding
