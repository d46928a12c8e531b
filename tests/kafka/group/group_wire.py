"""Groups as the Java program in this folder reads and writes them."""

from __future__ import annotations

from pathlib import Path

from java_programs import ask_java

from kafkasource.kafka.group.assignors import Member
from kafkasource.kafka.group.consumer_protocol import Subscription
from kafkasource.types import TopicPartition


def ask_kafka(commands):
    """The answers of Kafka's own consumer protocol and assignors."""
    return ask_java(Path(__file__).with_name("KafkaGroups.java"), commands)


def tps(text):
    """Of `t:0,t:1`; "-": none."""
    pairs = [] if text == "-" else [each.split(":") for each in text.split(",")]
    return tuple(TopicPartition(topic, int(partition)) for topic, partition in pairs)


def shown(partitions):
    return ",".join(f"{topic}:{partition}" for topic, partition in partitions) or "-"


def or_dash(value):
    return "-" if value is None else value


def subscription_text(subscription):
    data = subscription.user_data
    return ";".join(
        str(each)
        for each in (
            ",".join(subscription.topics) or "-",
            shown(subscription.owned_partitions),
            or_dash(subscription.generation_id),
            or_dash(subscription.rack_id),
            "-" if data is None else data.hex(),
        )
    )


def member_text(member_id, member):
    return f"{member_id};{or_dash(member.instance_id)};{subscription_text(member.subscription)}"


def assign_command(name, counts, members):
    topics = ",".join(f"{topic}:{count}" for topic, count in counts.items())
    return ["assign", name, topics, *(member_text(member_id, member) for member_id, member in members.items())]


def assign_near_command(name, counts, members, racks):
    def of(topic, count):
        return "/".join("+".join(sorted(racks[TopicPartition(topic, n)])) or "-" for n in range(count))

    topics = ",".join(f"{topic}:{of(topic, count)}" for topic, count in counts.items())
    told = [member_text(member_id, member) for member_id, member in members.items()]
    return ["assign-near", name, topics, *told]


def placement_text(placement):
    return " ".join(f"{member_id}={shown(sorted(placement[member_id]))}" for member_id in sorted(placement))


def member(topics, owned=(), generation=None, instance_id=None, user_data=None, rack=None):
    return Member(Subscription(tuple(topics), user_data, tuple(owned), generation, rack), instance_id)
