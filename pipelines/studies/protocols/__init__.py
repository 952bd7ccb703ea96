"""The papers' protocols, repeated on what a user has: one module, one command each."""
