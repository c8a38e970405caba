"""What is asked of a network and what is answered: norms, domains, problems, runs, results."""
