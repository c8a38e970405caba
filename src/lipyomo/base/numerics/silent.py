"""HiGHS without a word on the console."""

from __future__ import annotations

from functools import cache
from typing import Any


def silent_highs() -> Any:
    """A new ``highspy.Highs`` with ``output_flag`` off, which has written nothing, nor will.

    Setting the option afterwards is too late: from version 1.16 on, HiGHS writes its header as soon
    as its callbacks are registered, and that is done while the object is made.
    """
    highs = _silent_class()()
    highs.setOptionValue("output_flag", False)
    return highs


@cache
def _silent_class() -> Any:
    import highspy

    class SilentHighs(highspy.Highs):
        """HiGHS that is silent before its callbacks are registered."""

        def enableCallbacks(self) -> None:
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return SilentHighs
