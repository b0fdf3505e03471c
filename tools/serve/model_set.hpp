// SPDX-License-Identifier: MIT
/// The models that the server was started with, by name: what they are, whether they are loaded, and the thread that each runs on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/loaded_model.hpp"
#include "serve/log.hpp"
#include "serve/metrics.hpp"
#include "serve/model_options.hpp"
#include "serve/refusal.hpp"
#include "serve/router.hpp"
#include "vkformer/result.hpp"

namespace vkformer::serve {

enum class ModelState : std::uint8_t { unloaded, loading, ready, leaving, lost, failed };
/// "loading", …
std::string_view to_string(ModelState state) noexcept;

class ModelSet {
public:
    struct Entry {
        ModelSpec spec;
        ModelKind kind = ModelKind::embeddings;
        std::uint64_t bytes = 0;         ///< of its weights
        std::uint64_t needs = 0;         ///< bytes: these and a language model's cache
        TranslationLanguages languages;  ///< of a translation model

    private:
        friend class ModelSet;
        // Under the set's mutex:
        ModelState state = ModelState::loading;
        std::uint64_t last_used = 0;        // by the count of the set's uses
        std::vector<NotYet::Waiter> waiting;  // requests that came before it was loaded
        std::string device_before;          // where it was lost or failed, and is to be loaded again
        std::chrono::seconds pause{0};      // it failed and could not be loaded anew: until the next attempt
        std::chrono::steady_clock::time_point not_before{};  // the next attempt
        std::optional<LoadedModel>
            model;  // where it is ready, or was, and is held; its end may still tell of a failure
        std::shared_ptr<std::size_t> users = std::make_shared<std::size_t>(0);  // that hold it; some outlive the set
    };
    /// A model that stays as it is while this is held.
    using Held = std::shared_ptr<const LoadedModel>;

    /// Looks at every model's config or GGUF head: what it is. Errors: those of opening it; InvalidArgument (a name twice, a kind that is not
    /// served).
    static Result<ModelSet> find(std::vector<ModelSpec> specs, ModelOptions options, Metrics& metrics, Log& log);

    /// Loads all, one after the other, and then calls on_ready; a model that has failed is destroyed, once nobody holds it, and loaded anew
    /// on a new device. On demand, it loads what requests wait for; where room is needed, it destroys the model that was used least
    /// recently, an idle one if there is any, and else one that takes no further requests then. Returns after stop(), when those that wait
    /// are refused. Errors: of the first that cannot be loaded, with its name; one whose device was lost is tried three times, since
    /// a device that resets itself takes some time, and no other one is taken in its place. One that failed otherwise has the others go on: it is
    /// tried until it loads, after pauses of 2 s to a minute. None on demand: then the requests are told.
    Result<void> run(const std::function<void()>& on_ready);
    void stop();
    /// Of the whole: lost where one is, else failed where one is, and else loading where one is, but for those that are loaded on demand.
    ModelState state() const;
    ModelState state(const Entry& entry) const;
    const std::vector<std::unique_ptr<Entry>>& entries() const noexcept { return entries_; }

    /// The one of this kind that a request names, or an adapter of; without a name, the only one. The call holds it, and tells it of errors
    /// (Call::failed). Throws Refusal: 404 (no such model), 400 (one of another kind; several and no name), 503 (it is being loaded, or failed);
    /// NotYet where it is loaded on demand and not ready.
    template <class Model>
    Model& get(const Call& call, const std::optional<std::string>& name) const;
    /// Nothing where it is not ready.
    Held hold(Entry& entry) const;

private:
    /// What the functions share that run on different threads.
    struct Shared {
        std::mutex mutex;
        std::condition_variable changed;
        bool stops = false;
        std::uint64_t uses = 0;
    };
    Entry& named(const std::optional<std::string>& name, const std::function<bool(ModelKind)>& is_wanted) const;
    Held hold(const Call& call, Entry& entry) const;
    Refusal why_not(Entry& entry) const;
    Refusal failed(Entry& entry, const Error& error) const;
    Result<void> load(Entry& entry);
    Result<void> load_lost(Entry& entry);
    void load_failed(Entry& entry);
    void unload(Entry& entry);
    void wait(Entry& entry, NotYet::Waiter waiter) const;
    void forget(Entry& entry, const std::atomic<bool>* gone) const;
    /// What is to be done next, once there is something; nullptr: the end.
    Entry* next();
    void load_wanted(Entry& entry);
    Entry* least_recent(const Entry& wanted) const;
    bool make_room(const Entry& wanted, bool for_bytes);
    void tell(Entry& entry, const std::optional<Refusal>& why_not);
    template <class Model>
    static constexpr ModelKind kind_of();

    ModelSet(ModelOptions options, Metrics& metrics, Log& log)
        : options_(std::move(options)), metrics_(&metrics), log_(&log) {}

    ModelOptions options_;
    Metrics* metrics_;
    Log* log_;
    std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
    std::vector<std::unique_ptr<Entry>> entries_;
};

template <class Model>
constexpr ModelKind ModelSet::kind_of() {
    std::size_t index = 0;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((std::is_same_v<std::variant_alternative_t<I, LoadedModel>, std::unique_ptr<Model>> ? index = I : 0), ...);
    }
    (std::make_index_sequence<std::variant_size_v<LoadedModel>>());
    return static_cast<ModelKind>(index);
}

template <class Model>
Model& ModelSet::get(const Call& call, const std::optional<std::string>& name) const {
    Entry& entry = named(name, [](ModelKind kind) { return kind == kind_of<Model>(); });
    return *std::get<std::unique_ptr<Model>>(*hold(call, entry));
}

}  // namespace vkformer::serve
