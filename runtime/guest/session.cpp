// SPDX-License-Identifier: MIT
#include "guest/session.hpp"

#include <algorithm>
#include <string>

#include "core/try.hpp"

namespace vkformer::guest {

std::span<const std::int32_t> Session::tokens() const noexcept {
    return has_begun_ ? script_->tokens() : std::span<const std::int32_t>();
}
std::uint32_t Session::computed_prompt() const noexcept { return has_begun_ ? script_->prompt_read() : 0; }
float Session::score() const noexcept { return has_begun_ ? script_->score() : 0; }

Result<void> Session::begin(decoding::Sequence sequence) {
    if (outstanding() > 0)
        return Error{ErrorCode::InvalidArgument, "slices of the sequence before are not retired (" +
                                                     std::to_string(outstanding()) + "); retire or cancel them"};
    VKFORMER_TRY(const std::uint32_t room, script_->room_for(sequence.prompt));
    sequence.max_tokens = sequence.max_tokens == 0 ? room : std::min(sequence.max_tokens, room);
    script_->begin(std::move(sequence));
    drop_slices();
    total_us_ = 0;
    has_begun_ = true;
    state_ = SessionState::prompt;
    return {};
}

Result<void> Session::retire(std::uint64_t ticket) {
    if (ticket > last_ticket_)
        return Error{
            ErrorCode::InvalidArgument,
            "slice " + std::to_string(ticket) + " was never recorded; the last is " + std::to_string(last_ticket_)};
    return retire_slices(ticket);
}

void Session::cancel() {
    drop_slices();
    script_->stop();
    state_ = SessionState::idle;
}

void Session::note_taken(const decoding::Job& job) noexcept {
    if (!is_running()) return;
    if (job.kind == decoding::Job::Kind::step) state_ = SessionState::generating;
    if (script_->is_done()) state_ = SessionState::done;
}

void Session::note_time(double us) noexcept {
    last_us_ = us;
    total_us_ += us;
}

void Session::forget_all() {
    cancel();
    script_->forget();
    has_begun_ = false;
    last_us_ = total_us_ = 0;
}

}  // namespace vkformer::guest
