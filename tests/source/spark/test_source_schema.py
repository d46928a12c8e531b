"""Which columns a user may choose by `columns` and by `.schema()`, and what the driver says of others."""

from __future__ import annotations

import inspect

import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructField, StructType

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.records.arrow.columns import row_schema
from kafkasource.source.spark.formats import row_formats
from kafkasource.source.spark.schema import schema_of, spark_schema, with_columns_of

WHOLE = spark_schema(True)


def parsed(**more):
    return options.parse({"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", **more}, "source")


def some(*names):
    return StructType([WHOLE[name] for name in names])


def asked(schema, **more):
    return FetchSettings.from_options(with_columns_of(schema, parsed(**more))).columns


def refusal(schema, **more):
    with pytest.raises(OptionError) as error:
        with_columns_of(schema, parsed(**more))
    return str(error.value)


def test_without_a_choice_there_are_seven_columns_and_with_include_headers_eight():
    assert schema_of(parsed()) == spark_schema(False)
    assert schema_of(parsed(includeHeaders="true")) == WHOLE
    assert asked(spark_schema(False)) == tuple(WHOLE.names[:-1])
    assert asked(WHOLE, includeHeaders="true") == tuple(WHOLE.names)


def test_columns_come_in_the_order_in_which_the_user_names_them():
    assert schema_of(parsed(columns=" timestamp , value")) == some("timestamp", "value")
    assert schema_of(parsed(columns="headers,value")) == some("headers", "value")
    assert asked(some("timestamp", "value")) == ("timestamp", "value")


def test_include_headers_adds_its_column_to_a_choice():
    assert schema_of(parsed(columns="value", includeHeaders="true")) == some("value", "headers")
    assert schema_of(parsed(columns="headers,value", includeHeaders="true")) == some("headers", "value")
    assert "option 'includeHeaders' adds the column 'headers'" in refusal(some("value"), includeHeaders="true")


def test_the_option_and_the_schema_must_agree():
    assert asked(some("value", "key"), columns="value,key") == ("value", "key")
    assert "'columns' (value, key) and .schema() (key, value)" in refusal(some("key", "value"), columns="value,key")
    assert "must name the same columns" in refusal(some("value"), columns="value,key")


def test_a_schema_that_the_source_cannot_have_is_an_error_that_names_the_column():
    misspelt = refusal(StructType([StructField("Timestamp", LongType())]))
    assert "no column 'Timestamp' (did you mean 'timestamp'?); it has key, value, topic, partition" in misspelt
    text = refusal(StructType([StructField("value", StringType())]))
    assert "the column 'value' is binary, and .schema() says string. Convert it after load()" in text
    assert "the column 'offset' is bigint" in refusal(StructType([WHOLE["key"], StructField("offset", IntegerType())]))
    assert "'topic' is NOT NULL" in refusal(StructType([StructField("topic", StringType(), nullable=False)]))
    assert "names the column 'key' twice" in refusal(some("key", "value", "key"))
    assert "names no column" in refusal(StructType([]))


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("value,time", "no column 'time'"),
        ("timestamptype", "did you mean 'timestampType'"),
        ("value,,key", "expected names of columns"),
        ("", "expected names of columns"),
        ("key,key", "each once"),
    ],
)
def test_an_option_that_names_no_columns_of_ours_is_an_error(columns, complaint):
    with pytest.raises(OptionError, match="option 'columns'.*" + complaint.replace("?", ".")):
        parsed(columns=columns)


def test_packed_records_have_no_columns_to_choose():
    with pytest.raises(OptionError, match="'columns' cannot be combined with 'packRecords'=true"):
        parsed(columns="value", packRecords="true")
    packed = parsed(packRecords="true")
    assert with_columns_of(schema_of(packed), packed) == packed
    assert "with packRecords=true it has a single column, 'records'" in refusal(some("value"), packRecords="true")


def test_spark_and_arrow_have_the_same_columns():
    from pyspark.sql.pandas.types import to_arrow_schema

    has_zone = "timezone" in inspect.signature(to_arrow_schema).parameters  # Spark 4.0 always takes UTC
    theirs = to_arrow_schema(WHOLE, **({"timezone": "UTC"} if has_zone else {}))
    assert theirs.equals(row_schema(tuple(WHOLE.names)))


def test_a_struct_of_json_may_have_comments_on_its_fields_and_keeps_its_nullability():
    within = StructType([StructField("x", LongType(), False, {"comment": "of a line"})])
    value = StructType(
        [StructField("lines", ArrayType(within)), StructField("of", MapType(StringType(), within, False))]
    )
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "valueFormat": "json"}
    schema = StructType([StructField("offset", LongType()), StructField("value", value)])
    parsed = options.parse(given, "source")
    formats = row_formats(parsed, schema)
    assert with_columns_of(schema, parsed, formats)["columns"] == ("offset", "value")
    shown = schema_of(parsed, formats)["value"].dataType
    assert shown.simpleString() == value.simpleString()
    assert not shown["lines"].dataType.elementType["x"].nullable


def test_rescued_fields_are_a_column_of_text_that_a_schema_must_name():
    more = {"valueFormat": "json", "readerSchema": "id BIGINT", "rescuedColumn": "_rescued", "badRecords": "column"}
    formats = row_formats(parsed(**more))
    whole = schema_of(parsed(**more), formats)
    assert [field.name for field in whole][-2:] == ["_rescued", "badRecord"]
    assert whole["_rescued"] == StructField("_rescued", StringType())
    chosen = StructType([whole["_rescued"], whole["offset"], whole["badRecord"]])
    assert with_columns_of(chosen, parsed(**more), formats)["columns"] == ("_rescued", "offset", "badRecord")
    with pytest.raises(OptionError, match="option 'rescuedColumn' adds the column '_rescued'"):
        with_columns_of(StructType([whole["value"], whole["badRecord"]]), parsed(**more), formats)
    given = StructType([StructField("value", StructType([StructField("id", LongType())])), whole["_rescued"]])
    del more["readerSchema"], more["badRecords"]
    assert with_columns_of(given, parsed(**more), row_formats(parsed(**more), given))["columns"] == (
        "value",
        "_rescued",
    )
