"""What knows no networks: errors, arguments, arrays, numbers, the machine, pictures."""
