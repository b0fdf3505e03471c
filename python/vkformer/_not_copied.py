# SPDX-License-Identifier: MIT
from typing import ClassVar, NoReturn, SupportsIndex


class NotCopied:
    """What holds a model, a device or a thread: a copy would share it, and the end of one would be that of the other."""

    __slots__ = ()
    _instead: ClassVar[str]  # what to do

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Of copy.copy, copy.deepcopy and pickle."""
        raise TypeError(f"a vkformer.{type(self).__name__} cannot be copied or pickled: {self._instead}")
