# SPDX-License-Identifier: MIT
import threading
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from . import _inputs
from ._generator import GenerateArguments, Generator
from ._inputs import Dtype, Path
from ._not_copied import NotCopied
from ._results import Generation
from ._streams import AsyncTextStream, TextStream


class Chat(NotCopied):
    """A conversation with a language model: what was said is kept, and computed once.

    model: a Generator, or a path and options to load one with, as Generator takes them; the Chat closes what it has loaded.
    system: what the first message says, in the role "system".
    Keyword arguments: those of Generator.

    One turn at a time: a question while an answer is being read is a RuntimeError.
    """

    _instead = "make one of the same Generator, or load it again; messages has what was said"

    def __init__(
        self,
        model: Generator | Path,
        device: str | int = "auto",
        dtype: Dtype = "f32",
        *,
        system: str | None = None,
        **options: Any,
    ) -> None:
        self._is_own = not isinstance(model, Generator)
        if isinstance(model, Generator):
            if options or device != "auto" or dtype != "f32":
                raise TypeError("the options are those of the Generator that was given; they cannot be given again")
            self._generator = model
        else:
            self._generator = Generator(model, device, dtype, **options)
        self._first: list[tuple[str, str]] = []
        if system is not None:
            self._first.append(("system", _inputs.text(system, "system")))
        self._messages = list(self._first)
        self._turn = threading.Lock()

    @property
    def generator(self) -> Generator:
        return self._generator

    @property
    def messages(self) -> list[dict[str, str]]:
        """What was said so far, the oldest first: a copy."""
        return [{"role": role, "content": content} for role, content in self._messages]

    def reset(self) -> None:
        """Forgets what was said, but for the system's message."""
        with self._one_turn():
            self._messages = list(self._first)

    def say(self, text: str, **arguments: Unpack[GenerateArguments]) -> Generation:
        """The answer. A question that fails is not kept."""
        asked = self._asked(text)
        with self._one_turn():
            answer = self._generator.chat(asked, **arguments)
            self._messages = [*asked, ("assistant", answer.text)]
        return answer

    async def say_async(self, text: str, **arguments: Unpack[GenerateArguments]) -> Generation:
        """``say`` in another thread."""
        asked = self._asked(text)
        with self._one_turn():
            answer = await self._generator.chat_async(asked, **arguments)
            self._messages = [*asked, ("assistant", answer.text)]
        return answer

    def stream(self, text: str, **arguments: Unpack[GenerateArguments]) -> TextStream:
        """The answer as it comes. Of a stream that is closed before its end, what was read is kept as the answer."""
        asked = self._asked(text)
        work = self._generator._chat_work("Chat.stream", asked, arguments)
        return TextStream(self._generator, work, self._begin(asked))

    def stream_async(self, text: str, **arguments: Unpack[GenerateArguments]) -> AsyncTextStream:
        """``stream`` for ``async for``."""
        asked = self._asked(text)
        work = self._generator._chat_work("Chat.stream_async", asked, arguments)
        return AsyncTextStream(self._generator, work, self._begin(asked))

    def close(self) -> None:
        """Closes the model, where the Chat has loaded it."""
        if self._is_own:
            self._generator.close()

    def __enter__(self) -> "Chat":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _asked(self, text: str) -> list[tuple[str, str]]:
        return [*self._messages, ("user", _inputs.text(text, "the text"))]

    def _one_turn(self) -> "_Turn":
        return _Turn(self._turn)

    def _begin(self, asked: Sequence[tuple[str, str]]) -> Callable[[str, bool], None]:
        turn = self._one_turn()
        turn.__enter__()

        def end(answer: str, failed: bool) -> None:
            if not failed:
                self._messages = [*asked, ("assistant", answer)]
            turn.__exit__()

        return end


class _Turn:
    """A turn of a conversation; there is one at a time."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("the answer before is still being read: read its stream to the end or close it")

    def __exit__(self, *_: object) -> None:
        self._lock.release()
