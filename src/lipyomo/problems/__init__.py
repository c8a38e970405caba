"""Problems and results: norms, domains, problems, runs, and their results."""
