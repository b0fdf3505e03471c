// SPDX-License-Identifier: MIT
#include "sound/subtitles.hpp"

#include "support/catch.h"

namespace vkformer::tests {

TEST_CASE("texts of subtitles neither end nor begin a time or a tag", "[serve][speech]") {
    SpeechSegment said;
    said.start = 1;
    said.end = 2.5;
    said.text = " a <b> & ---> c\nd -->-> ";
    Transcription heard;
    heard.segments = {said};
    CHECK(sound::as_srt(heard) == "1\n00:00:01,000 --> 00:00:02,500\na <b> & -> c d ->->\n\n");
    CHECK(sound::as_vtt(heard) ==
          "WEBVTT\n\n00:00:01.000 --> 00:00:02.500\na &lt;b&gt; &amp; -&gt; c d -&gt;-&gt;\n\n");
}

}  // namespace vkformer::tests
