"""Membership in consumer groups, as a library: `member.GroupMember`. Nothing here needs Spark."""
