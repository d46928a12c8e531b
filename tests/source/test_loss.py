import logging

import pytest

from kafkasource.errors import DataLoss
from kafkasource.kafka import counters
from kafkasource.kafka.fetch.loss import PARTITIONS_DELETED, Loss, report

GONE = Loss(PARTITIONS_DELETED, "Partitions t-0 have been deleted.", "They are not read any more.")


def test_a_loss_stops_the_query_and_names_the_option_that_would_not():
    with pytest.raises(DataLoss) as caught:
        report([GONE], fail_on_data_loss=True)
    for part in ("Some data may have been lost", "KAFKA_DATA_LOSS.PARTITIONS_DELETED", GONE.text, "failOnDataLoss"):
        assert part in str(caught.value)


def test_a_tolerated_loss_is_a_warning_that_says_how_it_goes_on(caplog):
    with caplog.at_level(logging.WARNING, "kafkasource.source"):
        report([GONE], fail_on_data_loss=False)
    assert GONE.text in caplog.text
    assert GONE.action in caplog.text


def test_a_deleted_topic_that_is_tolerated_is_a_warning_and_every_other_loss_an_error(caplog):
    deleted = Loss(PARTITIONS_DELETED, "t-0 have been deleted.", "They are not read any more.", deleted=True)
    with caplog.at_level(logging.WARNING, "kafkasource.source"):
        report([deleted], fail_on_data_loss=True, fail_on_deleted_topic=False)
    assert deleted.text in caplog.text
    with pytest.raises(DataLoss, match="Partitions t-0") as caught:
        report([deleted, GONE], fail_on_data_loss=True, fail_on_deleted_topic=False)
    assert deleted.text not in str(caught.value).replace(GONE.text, "")
    with pytest.raises(DataLoss):
        report([deleted], fail_on_data_loss=True)


def test_a_tolerated_loss_counts_the_offsets_that_it_skips_and_an_error_counts_none(monkeypatch):
    counted = []
    monkeypatch.setattr(counters, "count", lambda *call: counted.append(call))
    losses = [GONE, Loss(PARTITIONS_DELETED, "Gone.", "Not read.", skipped={"t": 3, "u": 4})]
    with pytest.raises(DataLoss):
        report(losses, fail_on_data_loss=True)
    assert not counted
    report(losses, fail_on_data_loss=False)
    name = "kafkasource_offsets_skipped_total"
    assert counted == [(name, 3, "t"), (name, 4, "u")]


def test_no_loss_is_no_error(caplog):
    report([], fail_on_data_loss=True)
    assert not caplog.records
