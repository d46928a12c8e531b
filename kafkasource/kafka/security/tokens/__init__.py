"""OAuth tokens for OAUTHBEARER: what they are, their sources, and `cache`, which renews them in time."""
