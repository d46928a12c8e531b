"""Bugs that a campaign must find. `at_start` puts one into each Python process of the campaign; kafkasource has none of
this code.
"""

ENVIRONMENT = "CAMPAIGN_PLANT"
