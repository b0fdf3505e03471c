// SPDX-License-Identifier: MIT
// Who may ask a server: keys, and the names under which a browser reaches it.
#include <fstream>

#include "serve/access.hpp"
#include "support/catch.h"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using namespace serve;

int status_of(const Access& access, std::map<std::string, std::string> headers, bool with_key = false) {
    const Request head{.headers = std::move(headers)};
    try {
        if (with_key)
            access.check_key(head);
        else
            access.check_host_and_origin(head);
    } catch (const Refusal& refusal) {
        return refusal.status;
    }
    return 200;
}

}  // namespace

TEST_CASE("serve: keys are equal or not, whatever their lengths", "[serve]") {
    CHECK(equal_in_constant_time("0123456789", "0123456789"));
    for (const std::string_view wrong :
         {"", "0", "012345678", "0123456780", "01234567890", "1123456789", "01234567890123456789"})
        CHECK_FALSE(equal_in_constant_time(wrong, "0123456789"));
    CHECK_FALSE(equal_in_constant_time("a", ""));
    CHECK(equal_in_constant_time("", ""));
}

TEST_CASE("serve: a file of keys", "[serve]") {
    const TemporaryFolder folder;
    const auto read = [&](const std::string& text) {
        std::ofstream(folder / "keys") << text;
        return Access::read_keys(folder / "keys");
    };
    const auto keys = read("# of the editor\n  0123456789abcdef\r\n\nfedcba9876543210\n");
    REQUIRE(keys);
    CHECK(*keys == std::vector<std::string>{"0123456789abcdef", "fedcba9876543210"});
    CHECK(read("").error().code == ErrorCode::InvalidArgument);
    CHECK(read("0123456789abcde\n").error().code == ErrorCode::InvalidArgument);
    CHECK(Access::read_keys(folder / "nothing").error().code == ErrorCode::FileNotFound);

    const Access access{.keys = *keys};
    CHECK(status_of(access, {{"authorization", "Bearer 0123456789abcdef"}}, true) == 200);
    CHECK(status_of(access, {{"authorization", "bearer fedcba9876543210"}}, true) == 200);
    CHECK(status_of(access, {{"x-api-key", "fedcba9876543210"}}, true) == 200);
    CHECK(status_of(access, {{"authorization", "Bearer 0123456789abcdeF"}}, true) == 401);
    CHECK(status_of(access, {{"authorization", "Bearer"}, {"x-api-key", "0123456789abcdef"}}, true) == 401);
    CHECK(status_of(access, {}, true) == 401);
    CHECK(status_of({}, {}, true) == 200);
}

TEST_CASE("serve: hosts are taken apart", "[serve]") {
    CHECK(host_name("LocalHost:8080") == "localhost");
    CHECK(host_name("127.0.0.1") == "127.0.0.1");
    CHECK(host_name("[::1]:80") == "::1");
    for (const std::string_view bad :
         {"", ":80", "a b", "[::1", "[::1]80", "[evil.example]", "localhost:http", "a/b", "a:1:2:3", "a:123456"})
        CHECK_FALSE(host_name(bad));
    CHECK(is_loopback("127.8.9.1"));
    CHECK(is_loopback("::1"));
    CHECK_FALSE(is_loopback("0.0.0.0"));
    CHECK_FALSE(is_loopback("::"));
    CHECK_FALSE(is_loopback("localhost"));
}

TEST_CASE("serve: what a browser's page of another site may not do", "[serve]") {
    const Access access{.hosts = {"models.example"}, .origins = {"https://a.example"}};
    CHECK(status_of(access, {{"host", "localhost:8080"}}) == 200);
    CHECK(status_of(access, {{"host", "models.example"}}) == 200);
    CHECK(status_of(access, {{"host", "evil.example"}}) == 403);
    CHECK(status_of(access, {{"host", "localhost, evil.example"}}) == 400);
    CHECK(status_of(access, {}) == 400);
    CHECK(status_of(access, {{"host", "localhost:1"}, {"origin", "http://localhost:1"}}) == 200);
    CHECK(status_of(access, {{"host", "localhost:1"}, {"origin", "http://localhost:2"}}) == 403);
    CHECK(status_of(access, {{"host", "localhost:1"}, {"origin", "https://a.example"}}) == 200);
    CHECK(status_of(access, {{"host", "localhost:1"}, {"origin", "https://a.example.evil.example"}}) == 403);
    CHECK(status_of(access, {{"host", "localhost:1"}, {"origin", "null"}}) == 403);
}

}  // namespace vkformer::tests
