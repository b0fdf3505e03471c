// SPDX-License-Identifier: MIT
#include "serve/model_set.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/lack_of_memory.hpp"
#include "core/try.hpp"

namespace vkformer::serve {
namespace {

bool is_called(const ModelSpec& spec, const std::string& name) { return std::ranges::count(spec.names(), name) > 0; }

/// Errors: InvalidArgument (a name that another model or adapter has; adapters of a model that takes none).
Result<void> check_names(const ModelSet::Entry& entry, const std::vector<std::unique_ptr<ModelSet::Entry>>& others) {
    const std::vector<std::string> names = entry.spec.names();
    for (const std::string& name : names) {
        const bool is_taken =
            std::ranges::any_of(others, [&](const auto& other) { return is_called(other->spec, name); });
        if (is_taken || std::ranges::count(names, name) > 1)
            return Error{ErrorCode::InvalidArgument, "two models or adapters are called \"" + name + "\""};
    }
    if ((entry.kind == ModelKind::translation || entry.kind == ModelKind::speech) && !entry.spec.adapters.empty())
        return Error{ErrorCode::InvalidArgument,
                     entry.spec.name + ": only language models and encoders of texts take adapters"};
    return {};
}

/// It takes no further request, and goes when nobody holds it.
bool is_ending(ModelState state) {
    return state == ModelState::leaving || state == ModelState::lost || state == ModelState::failed;
}

Labels labels_of(const ModelSet::Entry& entry) {
    return {{"model", entry.spec.name}, {"kind", std::string(to_string(entry.kind))}};
}

}  // namespace

std::string_view to_string(ModelState state) noexcept {
    switch (state) {
    case ModelState::unloaded: return "unloaded";
    case ModelState::loading: return "loading";
    case ModelState::ready: return "ready";
    case ModelState::leaving: return "leaving";
    case ModelState::lost: return "lost";
    case ModelState::failed: return "failed";
    }
    return "";
}

Result<ModelSet> ModelSet::find(std::vector<ModelSpec> specs, ModelOptions options, Metrics& metrics, Log& log) {
    if (options.memory > 0 && !options.on_demand)
        return Error{ErrorCode::InvalidArgument,
                     "a bound on the models' memory is for those that are loaded on demand"};
    ModelSet set(std::move(options), metrics, log);
    for (ModelSpec& spec : specs) {
        auto entry = std::make_unique<Entry>();
        VKFORMER_TRY(entry->kind, serve::kind_of(spec));
        entry->bytes = weight_bytes(spec.path);
        for (const Adapter& adapter : spec.adapters) entry->bytes += weight_bytes(adapter.path);
        entry->needs = entry->bytes;
        if (entry->kind == ModelKind::language && set.options_.memory > 0) {
            VKFORMER_TRY(const auto cache, TextModel::cache_of(spec.path, set.options_));
            entry->needs += cache.bytes;
        }
        if (entry->kind == ModelKind::translation) {
            VKFORMER_TRY(entry->languages, TranslationModel::languages_of(spec.name, spec.path, set.options_));
        }
        if (set.options_.memory > 0 && entry->needs > set.options_.memory)
            return Error{ErrorCode::InvalidArgument, spec.name + " takes " + std::to_string(entry->needs) +
                                                         " bytes, and all models together may have " +
                                                         std::to_string(set.options_.memory)};
        if (set.options_.on_demand) entry->state = ModelState::unloaded;
        entry->spec = std::move(spec);
        VKFORMER_CHECK(check_names(*entry, set.entries_));
        set.entries_.push_back(std::move(entry));
    }
    if (!set.options_.vad.empty()) {
        if (std::ranges::none_of(set.entries_, [](const auto& entry) { return entry->kind == ModelKind::speech; }))
            return Error{ErrorCode::InvalidArgument,
                         "--vad is for models that hear, and none of them does: leave it out"};
        VKFORMER_CHECK(VoiceActivityDetector::load(set.options_.vad));
        VKFORMER_CHECK(speech_timestamps({}, 0, set.options_.vad_parameters));
    }
    for (const auto& [name, pair] : set.options_.languages) {
        const bool is_known = std::ranges::any_of(set.entries_, [&name = name](const auto& entry) {
            return entry->spec.name == name && entry->kind == ModelKind::translation;
        });
        if (!is_known) return Error{ErrorCode::InvalidArgument, "no translation model is called \"" + name + "\""};
    }
    return set;
}

Result<void> ModelSet::load(Entry& entry) {
    const auto began = std::chrono::steady_clock::now();
    auto model = load_model(entry.spec, entry.kind, options_, *metrics_);
    if (!model) {
        Error error = std::move(model).error();
        error.message = entry.spec.name + ": " + error.message;
        return error;
    }
    const std::string device = device_of(*model);
    const auto& notes = notes_of(*model);
    if (options_.strict && !notes.empty())
        return Error{ErrorCode::UnsupportedConfig,
                     entry.spec.name + ": " + notes.front() + "; without --strict it is only told of"};
    for (const std::string& note : notes) log_->say("note", {{"model", entry.spec.name}, {"what", note}});
    if (const auto* const text = std::get_if<std::unique_ptr<TextModel>>(&*model);
        text && options_.prompt_lookup > 0 && (*text)->engine().prompt_lookup() == 0)
        log_->say("no guesses",
                  {{"model", entry.spec.name}, {"what", "each sequence keeps a state: nothing is guessed"}});
    {
        const std::lock_guard lock(shared_->mutex);
        if (!entry.device_before.empty() && entry.device_before != device)  // it is not listed while it resets itself
            return Error{ErrorCode::NoDevice, entry.spec.name + ": it would run on " + device + " in place of " +
                                                  entry.device_before + ", which was lost, or failed, and is not back"};
        entry.device_before.clear();
        entry.model = *std::move(model);
        entry.state = ModelState::ready;
        metrics_->set("vkformer_model_loaded", labels_of(entry), 1);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    log_->say("loaded", {{"model", entry.spec.name},
                         {"kind", to_string(entry.kind)},
                         {"device", device},
                         {"ms", static_cast<std::int64_t>(seconds * 1000)}});
    return {};
}

/// Nobody holds it; its device goes with it.
void ModelSet::unload(Entry& entry) {
    metrics_->set("vkformer_model_loaded", labels_of(entry), 0);
    entry.model.reset();
}

Result<void> ModelSet::load_lost(Entry& entry) {
    constexpr int kAttempts = 3;
    constexpr std::chrono::seconds kPause{2};
    unload(entry);
    for (int attempt = 1;; ++attempt) {
        auto loaded = load(entry);
        if (loaded || attempt == kAttempts) return loaded;
        log_->say("failed", {{"model", entry.spec.name}, {"what", loaded.error().message}});
        std::unique_lock lock(shared_->mutex);
        if (shared_->changed.wait_for(lock, kPause, [&] { return shared_->stops; })) return {};
    }
}

/// Where that cannot be, the others go on, and it is tried again after a pause.
void ModelSet::load_failed(Entry& entry) {
    constexpr std::chrono::seconds kLeast{2}, kMost{60};
    unload(entry);
    const auto loaded = load(entry);
    if (!loaded) log_->say("failed", {{"model", entry.spec.name}, {"what", loaded.error().message}});
    const std::lock_guard lock(shared_->mutex);
    entry.pause = loaded ? std::chrono::seconds{0} : std::clamp(2 * entry.pause, kLeast, kMost);
    entry.not_before = std::chrono::steady_clock::now() + entry.pause;
    if (!loaded && loaded.error().code == ErrorCode::DeviceLost) entry.state = ModelState::lost;
}

Result<void> ModelSet::run(const std::function<void()>& on_ready) {
    const auto is_stopped = [&] {
        const std::lock_guard lock(shared_->mutex);
        return shared_->stops;
    };
    for (const auto& entry : entries_) {
        if (options_.on_demand || is_stopped()) break;
        VKFORMER_CHECK(load(*entry));
    }
    if (!is_stopped()) on_ready();
    while (Entry* const entry = next()) {
        if (!options_.on_demand) {
            if (state(*entry) == ModelState::failed)
                load_failed(*entry);
            else
                VKFORMER_CHECK(load_lost(*entry));
        } else if (state(*entry) == ModelState::unloaded) {
            load_wanted(*entry);
        } else {
            unload(*entry);
            const std::lock_guard lock(shared_->mutex);
            entry->state = ModelState::unloaded;
        }
    }
    for (const auto& entry : entries_) tell(*entry, told({ErrorCode::Cancelled, {}}));
    return {};
}

ModelSet::Entry* ModelSet::next() {
    using Clock = std::chrono::steady_clock;
    const auto could_begin = [](const Entry& entry) {
        if (entry.state == ModelState::unloaded) return !entry.waiting.empty();
        return is_ending(entry.state) && *entry.users == 0;
    };
    std::unique_lock lock(shared_->mutex);
    while (!shared_->stops) {
        // The one that may begin first: of several, who has waited longest.
        Entry* first = nullptr;
        for (const auto& entry : entries_)
            if (could_begin(*entry) && (!first || entry->not_before < first->not_before)) first = entry.get();
        if (first && first->not_before <= Clock::now()) {
            first->not_before = Clock::now();  // behind those that wait as well
            return first;
        }
        if (first)
            shared_->changed.wait_until(lock, first->not_before);
        else
            shared_->changed.wait(lock);
    }
    return nullptr;
}

/// Loads it, where there is no room after others have gone, and tells those that wait.
void ModelSet::load_wanted(Entry& entry) {
    if (!make_room(entry, true)) return;  // the end: those that wait are told so
    {
        const std::lock_guard lock(shared_->mutex);
        entry.state = ModelState::loading;
    }
    auto loaded = load(entry);
    while (!loaded && is_lack_of_memory(loaded.error().code) && make_room(entry, false)) loaded = load(entry);
    if (loaded) return tell(entry, std::nullopt);
    log_->say("failed", {{"model", entry.spec.name}, {"what", loaded.error().message}});
    {
        const std::lock_guard lock(shared_->mutex);
        entry.state = ModelState::unloaded;
    }
    tell(entry, Refusal(503, "the model cannot be loaded; the server's log says more", "model"));
}

/// An idle one, or else any other; nullptr: none is loaded. Under the mutex.
ModelSet::Entry* ModelSet::least_recent(const Entry& wanted) const {
    Entry* found = nullptr;
    const auto rank = [](const Entry& entry) { return std::pair(*entry.users > 0, entry.last_used); };
    for (const auto& entry : entries_)
        if (entry->state == ModelState::ready && entry.get() != &wanted && (!found || rank(*entry) < rank(*found)))
            found = entry.get();
    return found;
}

/// Lets models go, until there is room for the wanted one by the bytes that they need, or else a single one. False: there was none, or
/// nobody waits for the wanted one any more, for which no other has to go then.
bool ModelSet::make_room(const Entry& wanted, bool for_bytes) {
    for (;;) {
        Entry* victim = nullptr;
        bool is_spared = false;
        {
            std::unique_lock lock(shared_->mutex);
            std::uint64_t used = wanted.needs;
            for (const auto& entry : entries_)
                if (entry->state != ModelState::unloaded && entry.get() != &wanted) used += entry->needs;
            if (for_bytes && (options_.memory == 0 || used <= options_.memory)) return true;
            victim = least_recent(wanted);
            for (const auto& entry : entries_)
                if (!victim && is_ending(entry->state)) victim = entry.get();
            if (!victim || shared_->stops || wanted.waiting.empty()) return false;
            if (victim->state == ModelState::ready) victim->state = ModelState::leaving;
            shared_->changed.wait(lock,
                                  [&] { return shared_->stops || *victim->users == 0 || wanted.waiting.empty(); });
            if (shared_->stops) return false;
            is_spared = wanted.waiting.empty();
            if (is_spared && victim->state == ModelState::leaving) victim->state = ModelState::ready;
        }
        if (is_spared) {
            if (state(*victim) == ModelState::ready) tell(*victim, std::nullopt);
            return false;
        }
        unload(*victim);
        log_->say("unloaded", {{"model", victim->spec.name}});
        {
            const std::lock_guard lock(shared_->mutex);
            victim->state = ModelState::unloaded;
        }
        if (!for_bytes) return true;
    }
}

/// Those that wait for a model that is there keep it: others that wait would have it go before these are answered.
void ModelSet::tell(Entry& entry, const std::optional<Refusal>& why_not) {
    std::vector<NotYet::Waiter> waiting;
    {
        const std::lock_guard lock(shared_->mutex);
        waiting.swap(entry.waiting);
    }
    std::vector<Held> held(waiting.size());
    if (!why_not)
        for (Held& one : held) one = hold(entry);
    for (std::size_t i = 0; i < waiting.size(); ++i) waiting[i].told(why_not, {std::move(held[i]), &entry});
}

void ModelSet::wait(Entry& entry, NotYet::Waiter waiter) const {
    Held held = hold(entry);
    while (!held) {
        {
            const std::lock_guard lock(shared_->mutex);
            if (*waiter.is_gone) return;
            if (shared_->stops) break;
            if (entry.state != ModelState::ready) {
                entry.waiting.push_back(std::exchange(waiter, {}));
                break;
            }
        }
        held = hold(entry);
    }
    shared_->changed.notify_all();
    if (!waiter.told) return;
    const auto why_not = held ? std::nullopt : std::optional(told({ErrorCode::Cancelled, {}}));
    waiter.told(why_not, {std::move(held), &entry});
}

void ModelSet::forget(Entry& entry, const std::atomic<bool>* gone) const {
    NotYet::Waiter unneeded;  // what it holds is let go without the lock
    {
        const std::lock_guard lock(shared_->mutex);
        const auto found = std::ranges::find(entry.waiting, gone, [](const auto& one) { return one.is_gone.get(); });
        if (found == entry.waiting.end()) return;
        unneeded = std::move(*found);
        entry.waiting.erase(found);
    }
    shared_->changed.notify_all();
}

void ModelSet::stop() {
    {
        const std::lock_guard lock(shared_->mutex);
        shared_->stops = true;
    }
    shared_->changed.notify_all();
}

ModelState ModelSet::state(const Entry& entry) const {
    const std::lock_guard lock(shared_->mutex);
    return entry.state;
}

ModelState ModelSet::state() const {
    ModelState worst = ModelState::ready;
    for (const auto& entry : entries_) {
        const ModelState one = state(*entry);
        if (one == ModelState::lost) return one;
        if (one == ModelState::failed ||
            (one == ModelState::loading && worst == ModelState::ready && !options_.on_demand))
            worst = one;
    }
    return worst;
}

ModelSet::Held ModelSet::hold(Entry& entry) const {
    {
        const std::lock_guard lock(shared_->mutex);
        if (entry.state != ModelState::ready) return nullptr;
        ++*entry.users;
    }
    // Without the lock: where there is no memory for it, the pointer calls its deleter.
    return {&*entry.model, [users = entry.users, shared = shared_](const LoadedModel*) {
                {
                    const std::lock_guard release(shared->mutex);
                    --*users;
                }
                shared->changed.notify_all();
            }};
}

ModelSet::Held ModelSet::hold(const Call& call, Entry& entry) const {
    Held held = hold(entry);
    // One that it waited for it has, even if that is to go for another one by now.
    if (const auto& waited_for = call.waited_for(); !held && waited_for.use_count() > 0 && waited_for.get() == &entry)
        held = Held(waited_for, &*entry.model);
    if (!held && options_.on_demand)
        throw NotYet([this, &entry](NotYet::Waiter waiter) { wait(entry, std::move(waiter)); },
                     [this, &entry](const std::atomic<bool>* gone) { forget(entry, gone); });
    if (!held) throw why_not(entry);
    {
        const std::lock_guard lock(shared_->mutex);
        entry.last_used = ++shared_->uses;
    }
    call.keep(std::const_pointer_cast<LoadedModel>(held),
              [this, &entry](const Error& error) { return failed(entry, error); });
    return held;
}

/// Where it is not ready and not loaded on demand.
Refusal ModelSet::why_not(Entry& entry) const {
    {
        const std::lock_guard lock(shared_->mutex);
        if (entry.state == ModelState::lost) return told({ErrorCode::DeviceLost, {}});
        if (entry.state != ModelState::failed) return {503, "the model is being loaded", "model"};
    }
    return {503, "the model failed and is being loaded anew; try again soon", "model"};
}

/// A model whose device is lost, or whose engine has ended, takes no further request; the others that it has end with the same error.
/// What an encoder's call fails with is that call's alone.
Refusal ModelSet::failed(Entry& entry, const Error& error) const {
    if (error.code == ErrorCode::Cancelled) return told(error);
    const auto* const language = std::get_if<std::unique_ptr<TextModel>>(&*entry.model);  // which who tells it holds
    const std::optional<Error> ended = language ? (*language)->failure() : std::nullopt;
    const Error& cause = ended ? *ended : error;
    const bool is_lost = cause.code == ErrorCode::DeviceLost;
    const Refusal refusal = ended && !is_lost ? Refusal(503, "the model failed (" + std::string(to_string(cause.code)) +
                                                                 ") and is being loaded anew; try again soon")
                                              : told(cause);
    if (refusal.status < 500) return refusal;  // it is the request's own
    if (ended || is_lost) {
        std::string device = device_of(*entry.model);
        const std::lock_guard lock(shared_->mutex);
        if (shared_->stops || entry.state == ModelState::lost || entry.state == ModelState::failed) return refusal;
        entry.state = is_lost ? ModelState::lost : ModelState::failed;
        entry.device_before = std::move(device);
        metrics_->set("vkformer_model_loaded", labels_of(entry), 0);
    }
    log_->say(is_lost ? "lost" : ended ? "failed" : "error", {{"model", entry.spec.name}, {"what", cause.message}});
    shared_->changed.notify_all();
    return refusal;
}

ModelSet::Entry& ModelSet::named(const std::optional<std::string>& name,
                                 const std::function<bool(ModelKind)>& is_wanted) const {
    Entry* found = nullptr;
    for (const auto& entry : entries_) {
        if (name ? !is_called(entry->spec, *name) : !is_wanted(entry->kind)) continue;
        if (found)
            throw Refusal(400, "the server has several models for this; say which: /v1/models lists them", "model");
        found = entry.get();
    }
    if (!found && name)
        throw Refusal(404, "there is no such model here; /v1/models lists those that there are", "model",
                      "model_not_found");
    if (!found) throw Refusal(404, "the server has no model for this route", "model", "model_not_found");
    if (!is_wanted(found->kind))
        throw Refusal(400, "it is a model for " + std::string(to_string(found->kind)) + ", not for this route",
                      "model");
    return *found;
}

}  // namespace vkformer::serve
