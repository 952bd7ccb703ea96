"""Text files: how they are read as UTF-8, as JSON, TOML and YAML, and what several records of one thing say."""
