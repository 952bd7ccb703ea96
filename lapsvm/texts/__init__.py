"""Text files: reading UTF-8, JSON, TOML and YAML, and comparing several records of one thing."""
