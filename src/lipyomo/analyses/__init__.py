"""What users ask: constants, ranges, maps, decisions over data, methods side by side."""
