"""OAuth tokens for OAUTHBEARER: what one is, its sources, one file each, and `keeper`, which renews it in time."""
