import logging

import pytest

from kafkasource.errors import DataLoss
from kafkasource.source.loss import PARTITIONS_DELETED, Loss, report

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


def test_no_loss_is_no_error(caplog):
    report([], fail_on_data_loss=True)
    assert not caplog.records
