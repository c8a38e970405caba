"""Derivatives of networks, and products of networks, as networks."""
