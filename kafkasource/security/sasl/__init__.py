"""SASL's mechanisms, each a state machine without socket or clock: `mechanism.Mechanism` says how it is driven."""
