"""Text files: how they are read as UTF-8, and as JSON, TOML and YAML."""
