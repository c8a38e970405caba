"""``python -m lipyomo``.

Python puts the current folder first in `sys.path`.  Nobody has named what lies there: a `queue.py`
beside the networks is not the one that is meant.  So that entry goes before anything is imported;
if it holds this package, it goes to the end.
"""

import os  # loaded by Python itself, as is sys
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.path.realpath(os.curdir):
        here = sys.path.pop(0)
        if os.path.realpath(here) == os.path.dirname(os.path.dirname(os.path.realpath(__file__))):
            sys.path.append(here)

    from lipyomo.cli import entry_point

    entry_point()
