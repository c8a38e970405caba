"""What makes the papers' tables again, trains networks for them, and measures the package.

Run from a clone, ``python -m experiments NAME``; it is no part of the installed package.
"""
