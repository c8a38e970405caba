"""The networks that come with the project, and the scripts that made them."""
