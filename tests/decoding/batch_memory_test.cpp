// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "decoding/batch_case.hpp"

namespace vkformer::tests {
namespace {

/// Counts the programs that there are, of which the device has memory for so many.
class CountingBackend final : public graph::Backend {
public:
    CountingBackend(graph::Backend& device, std::size_t room) : device_(device), room_(room) {}
    std::string name() const override { return device_.name(); }
    std::shared_ptr<graph::TensorStore> make_store() override { return device_.make_store(); }
    const graph::FusionRules& fusions() const noexcept override { return device_.fusions(); }
    Result<std::unique_ptr<graph::Program>> compile(graph::Plan plan, std::shared_ptr<graph::TensorStore> weights,
                                                    std::shared_ptr<graph::TensorStore> states) override {
        if (there == room_) {
            ++refused;
            return Error{ErrorCode::OutOfDeviceMemory, "too many programs"};
        }
        auto made = device_.compile(std::move(plan), std::move(weights), std::move(states));
        if (!made) return made;
        ++all;
        return std::unique_ptr<graph::Program>(std::make_unique<Counted>(*this, *std::move(made)));
    }

    std::size_t there = 0, most = 0, all = 0, refused = 0;

private:
    class Counted final : public graph::Program {
    public:
        Counted(CountingBackend& backend, std::unique_ptr<graph::Program> program)
            : backend_(backend), program_(std::move(program)) {
            backend_.most = std::max(backend_.most, ++backend_.there);
        }
        ~Counted() override { --backend_.there; }
        Result<void> write(graph::Value tensor, std::span<const float> values) override {
            return program_->write(tensor, values);
        }
        Result<void> write(graph::Value tensor, std::span<const std::int32_t> values) override {
            return program_->write(tensor, values);
        }
        Result<void> read(graph::Value tensor, std::span<float> values) override {
            return program_->read(tensor, values);
        }
        Result<void> read(graph::Value tensor, std::span<double> values) override {
            return program_->read(tensor, values);
        }
        Result<void> read(graph::Value tensor, std::span<std::int32_t> values) override {
            return program_->read(tensor, values);
        }
        Result<void> submit(std::uint32_t runs) override { return program_->submit(runs); }
        Result<void> wait() override { return program_->wait(); }
        const graph::Plan& plan() const noexcept override { return program_->plan(); }

    private:
        CountingBackend& backend_;
        std::unique_ptr<graph::Program> program_;
    };

    graph::Backend& device_;
    std::size_t room_;
};

/// One of 32 kinds of steps.
BatchSequence sequence_of_kind(std::uint32_t kind) {
    BatchSequence asked = greedy_sequence({3, 1, static_cast<std::int32_t>(4 + kind)}, 3);
    asked.sequence.seed = kind;
    if (kind & 1) asked.sample = {.temperature = 0.7f};
    if (kind & 2) asked.frequency = 0.5f;
    if (kind & 4) asked.bias = {{7, 1.5f}};
    if (kind & 8) asked.min_tokens = 2;
    if (kind & 16) asked.log_probs = 2;
    return asked;
}

}  // namespace

TEST_CASE("of all the programs that requests ask a batch for, some are kept", "[decoding][batch]") {
    graph::Backend& device = *test_backends().front();
    CountingBackend backend(device, 1000);
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(2, 8);
    options.ends = {2};
    Batch batch(backend, model, options);
    BatchScript::Id next = 0;
    std::map<BatchScript::Id, BatchSequence> asked;
    for (const std::uint32_t together : {1u, 2u})
        for (std::uint32_t kind = 0; kind < 32; ++kind) {
            for (std::uint32_t i = 0; i < together; ++i) {
                asked[next] = sequence_of_kind(kind);
                batch.script.add(next, asked[next]);
                ++next;
            }
            batch.run_all();
        }
    CHECK(backend.all >= 64);
    CHECK(backend.most <= BatchOptions::kKeptSteps + 4);  // and chunks of prompts
    // What was used last is still there.
    const std::size_t all = backend.all;
    batch.script.add(next, sequence_of_kind(31));
    batch.script.add(next + 1, sequence_of_kind(31));
    batch.run_all();
    CHECK(backend.all == all);
    for (const auto& [id, sequence] : asked) {
        if (id % 5 != 0) continue;
        CAPTURE(id);
        check_alike(batch.ended.at(id), answer_alone(device, model, sequence, kBatchContext, {}, options.ends));
    }
}

TEST_CASE("programs of a batch give their memory to the one that a request needs", "[decoding][batch]") {
    graph::Backend& device = *GENERATE(from_range(test_backends()));
    CAPTURE(device.name());
    if (!takes_case(device, 2)) return;
    CountingBackend backend(device, 3);
    const models::Decoder model = long_model();
    Batch batch(backend, model, batch_options_of(2, 8));
    std::map<BatchScript::Id, BatchSequence> asked;
    for (const std::uint32_t kind : {0u, 1u, 2u, 4u, 3u, 0u}) {
        const BatchScript::Id id = asked.size();
        asked[id] = sequence_of_kind(kind);
        batch.script.add(id, asked[id]);
        while (batch.streamed[id].empty()) REQUIRE(batch.run(1));  // with the one before, which may still run
    }
    batch.run_all();
    CHECK(backend.refused >= 2);
    CHECK(batch.passed_over == backend.refused);
    for (const auto& [id, sequence] : asked) {
        CAPTURE(id);
        check_alike(batch.ended.at(id), answer_alone(device, model, sequence, kBatchContext));
    }
}

}  // namespace vkformer::tests
