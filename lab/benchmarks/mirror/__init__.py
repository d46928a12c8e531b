"""One cluster mirrored to one, two and three others: this connector's fan-out sink beside MirrorMaker 2 itself."""
