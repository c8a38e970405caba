"""The questions of users: constants, ranges, maps, decisions on data, comparisons of methods."""
