"""A module for each message: its fields, and the versions that have them."""
